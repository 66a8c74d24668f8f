//! Roles of labels: the node, the GPU, the job.

use serde::Deserialize;

/// Names of labels by what they say; an exporter may have its own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Roles {
    node: Option<Vec<String>>,
    gpu: Option<Vec<String>>,
    gpu_model: Option<Vec<String>>,
    mig_profile: Option<Vec<String>>,
    mig_instance: Option<Vec<String>>,
    job: Option<Vec<String>>,
    pod: Option<Vec<String>>,
    namespace: Option<Vec<String>>,
    meter: Option<Vec<String>>,
    queue: Option<Vec<String>>,
    cluster: Option<Vec<String>>,
}

/// Role of a label.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Node,
    Gpu,
    GpuModel,
    MigProfile,
    MigInstance,
    Job,
    Pod,
    Namespace,
    Meter,
    Queue,
    Cluster,
}

impl Roles {
    /// Names of the labels that say `role`, the first of which counts.
    pub(super) fn names(&self, role: Role) -> &[String] {
        let names = match role {
            Role::Node => &self.node,
            Role::Gpu => &self.gpu,
            Role::GpuModel => &self.gpu_model,
            Role::MigProfile => &self.mig_profile,
            Role::MigInstance => &self.mig_instance,
            Role::Job => &self.job,
            Role::Pod => &self.pod,
            Role::Namespace => &self.namespace,
            Role::Meter => &self.meter,
            Role::Queue => &self.queue,
            Role::Cluster => &self.cluster,
        };
        names.as_deref().unwrap_or_default()
    }

    /// These, and those of `general` where a role has none here.
    pub(super) fn over(&self, general: &Self) -> Self {
        let first = |own: &Option<Vec<String>>, other: &Option<Vec<String>>| own.clone().or_else(|| other.clone());
        Self {
            node: first(&self.node, &general.node),
            gpu: first(&self.gpu, &general.gpu),
            gpu_model: first(&self.gpu_model, &general.gpu_model),
            mig_profile: first(&self.mig_profile, &general.mig_profile),
            mig_instance: first(&self.mig_instance, &general.mig_instance),
            job: first(&self.job, &general.job),
            pod: first(&self.pod, &general.pod),
            namespace: first(&self.namespace, &general.namespace),
            meter: first(&self.meter, &general.meter),
            queue: first(&self.queue, &general.queue),
            cluster: first(&self.cluster, &general.cluster),
        }
    }
}
