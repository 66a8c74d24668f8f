//! What a power plan asks an operator to do, before anyone renders it for a scheduler.

/// Nodes that sleep and wake together: a partition, VC or pool.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct PoolPlan {
    /// Partition, VC or pool.
    pub name: String,
    /// Nodes in Slurm's host list notation, where known.
    pub nodes: Option<String>,
    /// How many nodes there are.
    pub total_nodes: u32,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Idle nodes to keep powered at all times: the buffer.
    pub keep_idle: u32,
    /// A node sleeps after so long idle, seconds.
    pub idle_s: u32,
    /// Powered nodes over time, where the policy is a schedule.
    pub actions: Vec<Action>,
}

impl PoolPlan {
    /// Whether nodes may sleep by its timeout: not all of them are kept idle.
    pub fn may_sleep(&self) -> bool {
        self.keep_idle < self.total_nodes
    }
}

/// From this moment on, so many nodes are powered.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Action {
    /// When, milliseconds since the epoch.
    pub at_ms: i64,
    /// Nodes powered from then on.
    pub powered: u32,
    /// Change: above 0 wakes, below 0 puts to sleep.
    pub change: i32,
}

/// A plan for a cluster.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct PowerPlan {
    /// Pools of the cluster.
    pub pools: Vec<PoolPlan>,
    /// Where the trace has no dates, the moment that its days are counted from, milliseconds since the epoch; `null` where it has.
    pub begins_ms: Option<i64>,
    /// Time from the order to wake until a node takes jobs, seconds.
    pub boot_s: u32,
    /// Time from the order to sleep until a node is off, seconds.
    pub shutdown_s: u32,
    /// Most nodes woken a minute; 0: no limit.
    pub wakes_per_minute: u32,
    /// Most nodes put to sleep a minute; 0: no limit.
    pub sleeps_per_minute: u32,
    /// Nodes that never sleep, in host list notation: canaries.
    pub canaries: Option<String>,
    /// Program that puts nodes to sleep, as the site has it; `None`: tracecast's example is written beside the fragment.
    pub suspend_program: Option<String>,
    /// Program that wakes nodes.
    pub resume_program: Option<String>,
}
