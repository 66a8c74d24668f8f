//! Objects by their identity, over all files and snapshots.
//!
//! An object may be in several files: snapshots taken one after the other, or dumps that overlap. Its `uid` tells that it is the
//! same, and the copy with the highest `resourceVersion` counts; where none is written, the one that has come further, then the one
//! that names the later moment, then the one whose text sorts last. What an older copy alone tells (when an earlier attempt began)
//! is kept beside it. So the order of the files makes no difference.
//!
//! **Deleted objects**: identities are never given twice. An object that is missing from a list of its kind and namespace, while that
//! list was taken after the object was made and after every document that holds it, was deleted before; how long before is unknown.
//! The part of a list that is of one kind was taken no earlier than the highest version, else the latest moment, that anything of that
//! kind in it names: `kubectl get pods,jobs.batch` asks for one kind after the other. A list that holds a kind in several namespaces
//! is of all namespaces; of what an empty list and one of a single namespace lack elsewhere, nothing is known.
//!
//! Memory: what is used of an object (a few hundred bytes), not its text.
//!
//! Worked example: Monday's list holds pod `a` (version 100), Tuesday's holds pods of the same namespace up to version 900 and no
//! `a`: it was deleted. Had Tuesday's list ended with version 90, it would be the older one, and `a` may still be there.

use std::collections::{BTreeMap, BTreeSet};

use super::object::{Kind, Meta};
use super::timeline::History;

/// Location of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the file, from 0.
    pub(super) file: usize,
    /// Number of the object in the file, from 1.
    pub(super) line: u64,
    /// Whether nothing was repaired in the object when it was read.
    pub(super) clean: bool,
}

/// An object that can be stored.
pub(super) trait Stored: std::fmt::Debug + PartialEq {
    fn meta(&self) -> &Meta;
    /// Stage that the object has reached, to tell the later of two copies without a version.
    fn stage(&self) -> u8 {
        0
    }
    /// History that a copy tells and a later copy may not.
    fn history(&self) -> History {
        History::default()
    }
}

/// An object and what is known of its copies.
#[derive(Debug)]
pub(super) struct Kept<T> {
    pub(super) object: T,
    pub(super) place: Place,
    pub(super) history: History,
    /// The latest moment that its copy names.
    latest: Option<i64>,
    /// Documents that hold it, in rising order as they are read.
    seen: Vec<u32>,
    /// Whether a watch said that the object was deleted.
    deleted: bool,
}

impl<T> Kept<T> {
    /// Number of documents that hold the object.
    pub(super) fn copies(&self) -> usize {
        self.seen.len()
    }
}

/// Objects of one kind by identity.
#[derive(Debug)]
pub(super) struct Store<T>(BTreeMap<Box<str>, Kept<T>>);

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// A copy of an object as it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) place: Place,
    pub(super) document: u32,
    pub(super) latest: Option<i64>,
    /// Whether a watch says that the object was deleted after this copy.
    pub(super) deleted: bool,
}

impl<T: Stored> Store<T> {
    /// Takes a copy of an object; `false` if the same document held the very same copy before.
    pub(super) fn take(&mut self, object: T, copy: Taken) -> bool {
        let history = object.history();
        let uid = object.meta().uid.clone();
        let Some(kept) = self.0.get_mut(&uid) else {
            let Taken { place, document, latest, deleted } = copy;
            self.0.insert(uid, Kept { object, place, history, latest, seen: vec![document], deleted });
            return true;
        };
        let same = kept.object == object;
        if same && !copy.deleted && kept.seen.last() == Some(&copy.document) {
            return false;
        }
        kept.history.join(history);
        kept.deleted |= copy.deleted;
        if kept.seen.last() != Some(&copy.document) {
            kept.seen.push(copy.document);
        }
        if !same {
            let rank = |object: &T, latest| (object.meta().version, object.stage(), latest);
            let (old, new) = (rank(&kept.object, kept.latest), rank(&object, copy.latest));
            // The text decides between copies that nothing else tells apart, so that order does not.
            if old.cmp(&new).then_with(|| format!("{:?}", kept.object).cmp(&format!("{object:?}"))).is_lt() {
                (kept.object, kept.place, kept.latest) = (object, copy.place, copy.latest);
            }
        }
        true
    }

    /// All objects by identity.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Kept<T>> {
        self.0.values()
    }

    /// All objects by identity, to change what was read of them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut().map(|kept| &mut kept.object)
    }

    /// The object of an identity.
    pub(super) fn get(&self, uid: &str) -> Option<&Kept<T>> {
        self.0.get(uid)
    }

    /// Number of objects in more than one document.
    pub(super) fn repeated(&self) -> u64 {
        self.iter().filter(|kept| kept.copies() > 1).count() as u64
    }
}

/// The highest version and the latest moment that some objects name: they were read no earlier.
#[derive(Debug, Default, Clone, Copy)]
struct Bound {
    version: Option<u64>,
    latest: Option<i64>,
}

impl Bound {
    fn raise(&mut self, other: Self) {
        self.version = self.version.max(other.version);
        self.latest = self.latest.max(other.latest);
    }

    /// Whether this bound is the later of two. Versions tell it, else moments.
    fn is_after(self, other: Self) -> bool {
        match self.version.zip(other.version) {
            Some((own, other)) => own > other,
            None => self.latest.zip(other.latest).is_some_and(|(own, other)| own > other),
        }
    }
}

/// Bounds on when one document was taken.
#[derive(Debug, Default)]
struct Document {
    all: Bound,
    /// Bounds by kind of object.
    kinds: BTreeMap<Kind, Bound>,
}

/// The document that is being read, as far as it was.
#[derive(Debug, Default)]
pub(super) struct Open {
    document: Document,
    /// Namespaces of what its list holds, by kind.
    lists: BTreeMap<Kind, BTreeSet<Box<str>>>,
}

impl Open {
    /// Whether no object was noted.
    pub(super) fn is_empty(&self) -> bool {
        self.document.kinds.is_empty()
    }

    /// Notes that the document names a moment and an object; `listed` in a list.
    pub(super) fn tells(&mut self, kind: Kind, meta: &Meta, latest: Option<i64>, listed: bool) {
        // Events may be kept in a store of their own, whose versions are others.
        let bound = Bound { version: meta.version.filter(|_| kind != Kind::Event), latest };
        self.document.all.raise(bound);
        self.document.kinds.entry(kind).or_default().raise(bound);
        if listed {
            self.lists.entry(kind).or_default().insert(meta.namespace.clone());
        }
    }
}

/// The documents of all files: lists of objects, or single ones.
#[derive(Debug, Default)]
pub(super) struct Documents {
    documents: Vec<Document>,
    /// Lists that hold a kind in several namespaces, and so are of all.
    everywhere: BTreeMap<Kind, BTreeSet<u32>>,
    /// Lists that hold a kind in one namespace only.
    lists: BTreeMap<(Kind, Box<str>), BTreeSet<u32>>,
    /// Lists that hold nothing.
    pub(super) empty: u64,
}

impl Documents {
    /// The number of the document that is being read.
    pub(super) fn current(&self) -> u32 {
        // Fewer documents than that fit in memory.
        u32::try_from(self.documents.len()).unwrap_or(u32::MAX)
    }

    /// Number of documents.
    pub(super) fn many(&self) -> usize {
        self.documents.len()
    }

    /// Ends the current document. Of a list that was cut short nothing is known to be missing.
    pub(super) fn end(&mut self, open: &mut Open, whole: bool) {
        let open = std::mem::take(open);
        let number = self.current();
        for (kind, namespaces) in open.lists.into_iter().filter(|_| whole) {
            if namespaces.len() > 1 {
                self.everywhere.entry(kind).or_default().insert(number);
                continue;
            }
            for namespace in namespaces {
                self.lists.entry((kind, namespace)).or_default().insert(number);
            }
        }
        self.documents.push(open.document);
    }

    /// Whether an object was deleted: a watch says so, or a later list of its kind and namespace does not hold it.
    pub(super) fn deleted<T: Stored>(&self, kind: Kind, kept: &Kept<T>) -> bool {
        let own = self.lists.get(&(kind, kept.object.meta().namespace.clone()));
        let lists = own.into_iter().chain(self.everywhere.get(&kind)).flatten();
        kept.deleted || self.lacking(kind, kept, lists)
    }

    /// Whether a later list of its kind lacks an object, and may be of another namespace only.
    pub(super) fn in_doubt<T: Stored>(&self, kind: Kind, kept: &Kept<T>) -> bool {
        let namespace = &kept.object.meta().namespace;
        let other = self.lists.iter().filter(|((of, held), _)| *of == kind && held != namespace);
        let lists = other.flat_map(|(_, lists)| lists);
        !self.deleted(kind, kept) && self.lacking(kind, kept, lists)
    }

    /// Whether one of these lists lacks an object, and is later than it and than every document that holds it.
    fn lacking<'d, T: Stored>(&self, kind: Kind, kept: &Kept<T>, mut lists: impl Iterator<Item = &'d u32>) -> bool {
        let meta = kept.object.meta();
        let own = Bound { version: meta.version, latest: meta.created };
        let document = |number: &u32| self.documents.get(*number as usize);
        lists.any(|number| {
            let Some(list) = document(number).filter(|_| kept.seen.binary_search(number).is_err()) else {
                return false;
            };
            list.kinds.get(&kind).is_some_and(|bound| bound.is_after(own))
                && kept.seen.iter().filter_map(document).all(|holds| list.all.is_after(holds.all))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Thing(Meta, u8);

    impl Stored for Thing {
        fn meta(&self) -> &Meta {
            &self.0
        }
        fn stage(&self) -> u8 {
            self.1
        }
    }

    fn thing(uid: &str, version: Option<u64>, stage: u8) -> Thing {
        let (namespace, name) = ("n".into(), uid.into());
        Thing(Meta { namespace, name, uid: uid.into(), version, created: Some(1_000), owner: None }, stage)
    }

    fn copy(document: u32) -> Taken {
        Taken { place: Place { file: 0, line: 1, clean: true }, document, latest: None, deleted: false }
    }

    #[test]
    fn the_latest_copy_counts_in_any_order() {
        let copies = [thing("a", Some(9), 1), thing("a", Some(10), 0), thing("a", None, 3)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let mut store = Store::default();
            for (document, ix) in (0..).zip(order) {
                assert!(store.take(copies[ix].clone(), copy(document)));
            }
            assert_eq!(store.get("a").unwrap().object, copies[1], "{order:?}");
            assert_eq!(store.repeated(), 1);
        }
    }

    #[test]
    fn the_same_copy_twice_in_a_document_is_a_repetition_and_in_two_is_not() {
        let mut store = Store::default();
        assert!(store.take(thing("a", None, 0), copy(0)));
        assert!(!store.take(thing("a", None, 0), copy(0)));
        assert!(store.take(thing("a", None, 0), copy(1)));
    }

    // Document 0 holds a and b, document 1 only b, of version 900: a is gone. Cut short, document 1 says nothing of a.
    #[test]
    fn what_a_later_list_lacks_was_deleted() {
        for (version, whole, gone) in [(900, true, true), (90, true, false), (900, false, false)] {
            let (mut store, mut documents, mut open) = (Store::default(), Documents::default(), Open::default());
            let lists = [vec![thing("a", Some(100), 0), thing("b", Some(80), 0)], vec![thing("b", Some(version), 0)]];
            for list in lists {
                for object in list {
                    open.tells(Kind::Pod, object.meta(), None, true);
                    store.take(object, copy(documents.current()));
                }
                documents.end(&mut open, whole);
            }
            let deleted = |uid: &str| documents.deleted(Kind::Pod, store.get(uid).unwrap());
            assert_eq!((deleted("a"), deleted("b")), (gone, false), "{version} {whole}");
            assert!(!documents.deleted(Kind::Workload, store.get("a").unwrap()));
        }
    }

    /// Whether each object is deleted after these documents, each a list of kind, identity, namespace and version.
    fn deleted(documents: &[&[(Kind, &str, &str, u64)]], kind: Kind, uid: &str) -> (bool, bool) {
        let (mut store, mut all, mut open) = (Store::default(), Documents::default(), Open::default());
        for document in documents {
            for (kind, uid, namespace, version) in *document {
                let mut object = thing(uid, Some(*version), 0);
                object.0.namespace = (*namespace).into();
                open.tells(*kind, object.meta(), None, true);
                store.take(object, copy(all.current()));
            }
            all.end(&mut open, true);
        }
        let kept = store.get(uid).unwrap();
        (all.deleted(kind, kept), all.in_doubt(kind, kept))
    }

    // The second list holds namespace y and z, so it is of all namespaces. Of y alone, it may be of y only.
    #[test]
    fn a_namespace_that_was_emptied_is_in_no_later_list() {
        let first = [(Kind::Pod, "a", "x", 5), (Kind::Pod, "b", "y", 6), (Kind::Pod, "c", "z", 7)];
        let all = [(Kind::Pod, "b", "y", 16), (Kind::Pod, "c", "z", 17)];
        assert_eq!(deleted(&[&first, &all], Kind::Pod, "a"), (true, false));
        assert_eq!(deleted(&[&all, &first], Kind::Pod, "a"), (true, false));
        assert_eq!(deleted(&[&first, &all[..1]], Kind::Pod, "a"), (false, true));
        assert_eq!(deleted(&[&first, &all[..1]], Kind::Pod, "b"), (false, false));
    }

    // The first list lacks `a`, and its Job has a higher version than `a`; the second holds `a` and is later, so `a` was made between.
    #[test]
    fn what_the_newest_list_holds_is_there() {
        let older = [(Kind::Pod, "b", "x", 4), (Kind::Job, "j", "x", 9)];
        let newer = [(Kind::Pod, "a", "x", 5), (Kind::Job, "k", "x", 20)];
        assert_eq!(deleted(&[&older, &newer], Kind::Pod, "a"), (false, false));
        // Later than `a` by its own kind, and still older than the list that holds it.
        let between = [(Kind::Pod, "b", "x", 7)];
        assert_eq!(deleted(&[&between, &newer], Kind::Pod, "a"), (false, false));
        // The pods were asked for before `a` was made, the Jobs after.
        let split = [(Kind::Pod, "b", "x", 4), (Kind::Job, "j", "x", 30)];
        assert_eq!(deleted(&[&newer, &split], Kind::Pod, "a"), (false, false));
    }
}
