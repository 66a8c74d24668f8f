//! Kinds of limits, and their names in `squeue`.
//!
//! Worked example: jobs that compete for GPUs wait for `GrpTRESMins` of an account with the reason AssocGrpGRESMinutes, jobs that compete for processors with AssocGrpCPUMinutesLimit.

use tracecast_analytics::schema::Resource;

/// Kind of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `MaxWall` of a QOS.
    Wall,
    /// `MaxTime` of a partition.
    PartitionTime,
    /// `MaxTRESPerJob`.
    JobGpus,
    /// `GrpJobs`.
    GroupJobs,
    /// `MaxJobsPU`.
    UserJobs,
    /// `GrpTRES`.
    GroupGpus,
    /// `MaxTRESPU`.
    UserGpus,
    /// `GrpTRESRunMins`.
    GroupTime,
    /// `MaxWall` of an association.
    AccountWall,
    /// `MaxTRESPerJob` of an association.
    AccountJobGpus,
    /// `GrpJobs` of an association.
    AccountGroupJobs,
    /// `MaxJobs` of an association.
    AccountJobs,
    /// `GrpTRES` of an association.
    AccountGroupGpus,
    /// `GrpTRESRunMins` of an association.
    AccountGroupTime,
    /// `GrpTRESMins`.
    UsedGpus,
    /// `GrpWall`.
    UsedWall,
    /// `MaxTRESPA`.
    PerAccountGpus,
    /// `MaxJobsPA`.
    PerAccountJobs,
    /// `GrpTRESMins` of an association.
    AccountUsedGpus,
    /// `GrpWall` of an association.
    AccountUsedWall,
}

impl Kind {
    /// The reason that `squeue` shows, where jobs compete for `resource`.
    pub fn reason(self, resource: Resource) -> &'static str {
        match (self, resource) {
            (Self::Wall, _) => "QOSMaxWallDurationPerJobLimit",
            (Self::PartitionTime, _) => "PartitionTimeLimit",
            (Self::GroupJobs, _) => "QOSGrpJobsLimit",
            (Self::UserJobs, _) => "QOSMaxJobsPerUserLimit",
            (Self::JobGpus, Resource::Gpus) => "QOSMaxGRESPerJob",
            (Self::JobGpus, Resource::Cpus) => "QOSMaxCpuPerJobLimit",
            (Self::JobGpus, Resource::Nodes) => "QOSMaxNodePerJobLimit",
            (Self::GroupGpus, Resource::Gpus) => "QOSGrpGRES",
            (Self::GroupGpus, Resource::Cpus) => "QOSGrpCpuLimit",
            (Self::GroupGpus, Resource::Nodes) => "QOSGrpNodeLimit",
            (Self::UserGpus, Resource::Gpus) => "QOSMaxGRESPerUser",
            (Self::UserGpus, Resource::Cpus) => "QOSMaxCpuPerUserLimit",
            (Self::UserGpus, Resource::Nodes) => "QOSMaxNodePerUserLimit",
            (Self::GroupTime, Resource::Gpus) => "QOSGrpGRESRunMinutes",
            (Self::GroupTime, Resource::Cpus) => "QOSGrpCPURunMinutesLimit",
            (Self::GroupTime, Resource::Nodes) => "QOSGrpNodeRunMinutes",
            (Self::AccountWall, _) => "AssocMaxWallDurationPerJobLimit",
            (Self::AccountGroupJobs, _) => "AssocGrpJobsLimit",
            (Self::AccountJobs, _) => "AssocMaxJobsLimit",
            (Self::AccountJobGpus, Resource::Gpus) => "AssocMaxGRESPerJob",
            (Self::AccountJobGpus, Resource::Cpus) => "AssocMaxCpuPerJobLimit",
            (Self::AccountJobGpus, Resource::Nodes) => "AssocMaxNodePerJobLimit",
            (Self::AccountGroupGpus, Resource::Gpus) => "AssocGrpGRES",
            (Self::AccountGroupGpus, Resource::Cpus) => "AssocGrpCpuLimit",
            (Self::AccountGroupGpus, Resource::Nodes) => "AssocGrpNodeLimit",
            (Self::AccountGroupTime, Resource::Gpus) => "AssocGrpGRESRunMinutes",
            (Self::AccountGroupTime, Resource::Cpus) => "AssocGrpCPURunMinutesLimit",
            (Self::AccountGroupTime, Resource::Nodes) => "AssocGrpNodeRunMinutes",
            (Self::UsedGpus, Resource::Gpus) => "QOSGrpGRESMinutes",
            (Self::UsedGpus, Resource::Cpus) => "QOSGrpCPUMinutesLimit",
            (Self::UsedGpus, Resource::Nodes) => "QOSGrpNodeMinutes",
            (Self::UsedWall, _) => "QOSGrpWallLimit",
            (Self::PerAccountJobs, _) => "MaxJobsPerAccount",
            (Self::PerAccountGpus, Resource::Gpus) => "MaxGRESPerAccount",
            (Self::PerAccountGpus, Resource::Cpus) => "MaxCpuPerAccount",
            (Self::PerAccountGpus, Resource::Nodes) => "MaxNodePerAccount",
            (Self::AccountUsedGpus, Resource::Gpus) => "AssocGrpGRESMinutes",
            (Self::AccountUsedGpus, Resource::Cpus) => "AssocGrpCPUMinutesLimit",
            (Self::AccountUsedGpus, Resource::Nodes) => "AssocGrpNodeMinutes",
            (Self::AccountUsedWall, _) => "AssocGrpWallLimit",
        }
    }

    /// Whether this is a limit of an association.
    pub(super) fn is_of_account(self) -> bool {
        matches!(
            self,
            Self::AccountWall
                | Self::AccountJobGpus
                | Self::AccountGroupJobs
                | Self::AccountJobs
                | Self::AccountGroupGpus
                | Self::AccountGroupTime
                | Self::AccountUsedGpus
                | Self::AccountUsedWall
        )
    }

    /// Whether this is a limit of what was used in all.
    pub(super) fn is_of_usage(self) -> bool {
        matches!(self, Self::UsedGpus | Self::UsedWall | Self::AccountUsedGpus | Self::AccountUsedWall)
    }
}

/// The limit that keeps a job from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Owner: an index into the QOSs; of [`Kind::PartitionTime`] into the VCs; of an association
    /// into the associations.
    pub owner: u32,
    /// Kind of the limit.
    pub kind: Kind,
}
