//! Reasons that several readers share, and those of which whoever reads a trace is warned.

use super::Reason;

/// A line has fewer or more fields than the header.
pub const FIELD_COUNT: Reason = Reason {
    id: "field_count",
    what: "the line has another number of fields than the header, so its values cannot be told apart",
    remedy: "export the source again, or quote fields that hold the separator",
};
/// A value that must be a number is not one.
pub const NOT_A_NUMBER: Reason = Reason {
    id: "not_a_number",
    what: "a number was expected; the value is set to unknown",
    remedy: "check the column in the source",
};
/// A value that must be a time is not one.
pub const NOT_A_TIME: Reason = Reason {
    id: "not_a_time",
    what: "a time was expected; the value is set to unknown",
    remedy: "check the column in the source",
};
/// The row has no key.
pub const NO_KEY: Reason = Reason {
    id: "no_key",
    what: "the row names no job, node or zone, so it can be attributed to nothing",
    remedy: "export the identifying column too",
};
/// The row has no submit time.
pub const NO_SUBMIT: Reason =
    Reason { id: "no_submit", what: "the job has no usable submit time", remedy: "export the submit time too" };
/// A row repeats another exactly.
pub const DUPLICATE: Reason = Reason {
    id: "duplicate_row",
    what: "the row repeats one already read; only the first is used",
    remedy: "export without overlap, or ignore this if files overlap on purpose",
};
/// A job ends before it starts.
pub const END_BEFORE_START: Reason = Reason {
    id: "end_before_start",
    what: "the job ends before it starts; its end is set to unknown",
    remedy: "check the clocks of the machines that wrote the record",
};
/// A job starts before it was submitted.
pub const START_BEFORE_SUBMIT: Reason = Reason {
    id: "start_before_submit",
    what: "the job starts before it was submitted; its wait is counted as unknown",
    remedy: "check the clocks of the machines that wrote the record",
};
/// A negative amount.
pub const NEGATIVE: Reason = Reason {
    id: "negative_value",
    what: "an amount is negative; the value is set to unknown",
    remedy: "check the column in the source",
};
/// A value outside what is physically possible.
pub const OUT_OF_RANGE: Reason = Reason {
    id: "out_of_range",
    what: "a value is outside what is possible; it is set to unknown",
    remedy: "check the column in the source",
};
/// A local time that happened twice.
pub const DST_FOLD: Reason = Reason {
    id: "dst_fold",
    what: "the local time happened twice when clocks went back; the first is taken",
    remedy: "export times in UTC or with their offset",
};
/// A local time that happened twice, where only the second time is in order.
pub const DST_FOLD_LATER: Reason = Reason {
    id: "dst_fold_later",
    what: "the local time happened twice when clocks went back; the second is taken, as by the first the job would \
           end before it starts or start before it was submitted",
    remedy: "export times in UTC or with their offset",
};
/// A local time that happened twice, decided by how long the source says something took.
pub const DST_FOLD_TOLD: Reason = Reason {
    id: "dst_fold_told",
    what: "the local time happened twice when clocks went back; the one is taken that agrees with the run time or \
           wait that the source gives",
    remedy: "nothing to do; export times in UTC or with their offset to be sure",
};
/// An attempt that begins before the one before it ended.
pub const OVERLAPPING_ATTEMPTS: Reason = Reason {
    id: "overlapping_attempts",
    what: "an attempt of the job begins before the one before it ended; both are kept, so the time they share counts \
           twice",
    remedy: "check the clocks of the machines that wrote the record",
};
/// Two columns of one name that do not agree.
pub const DUPLICATE_COLUMN: Reason = Reason {
    id: "duplicate_column",
    what: "two columns have the same name and other values; the first is used",
    remedy: "export each column once",
};
/// A local time that never happened.
pub const DST_GAP: Reason = Reason {
    id: "dst_gap",
    what: "the local time never happened as clocks went forward; it is moved past the gap",
    remedy: "export times in UTC or with their offset",
};
/// A state this version does not know.
pub const UNKNOWN_STATE: Reason = Reason {
    id: "unknown_state",
    what: "the job state is not one we know; it is kept as text and counted as unknown",
    remedy: "nothing is lost, the word is in reported_state; report it to the maintainers of tracecast",
};
/// Bytes that are not UTF-8.
pub const NOT_UTF8: Reason =
    Reason { id: "not_utf8", what: "the line is not valid UTF-8; bad bytes are replaced", remedy: "export as UTF-8" };
/// A line that is too long to be a row.
pub const LINE_TOO_LONG: Reason = Reason {
    id: "line_too_long",
    what: "the line is longer than 16 MiB and cannot be a row",
    remedy: "check that the file is text and has line ends",
};
/// A record that cannot be parsed at all.
pub const MALFORMED: Reason =
    Reason { id: "malformed_row", what: "the record cannot be parsed", remedy: "check the place in the source" };
/// Lists of given resources that end in the middle.
pub const CUT_ALLOC_TRES: Reason = Reason {
    id: "cut_alloc_tres",
    what: "AllocTRES is cut, so the GPUs given are unknown unless they stand before the cut, and those asked for count in their place",
    remedy: "write --format with a width such as AllocTRES%200, or use sacct -P",
};
/// Lists of resources asked for that end in the middle.
pub const CUT_REQ_TRES: Reason = Reason {
    id: "cut_req_tres",
    what: "ReqTRES is cut, so the GPUs asked for are unknown unless they stand before the cut",
    remedy: "write --format with a width such as ReqTRES%200, or use sacct -P",
};

/// Repairs that change what is counted where there are many, by identifier.
pub const WARNED: [&str; 2] = [CUT_ALLOC_TRES.id, CUT_REQ_TRES.id];
