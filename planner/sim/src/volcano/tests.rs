//! Amounts that queues deserve, worked out by hand, and Volcano's documented examples.

use super::{FINE, Plugin, VolcanoQueue, VolcanoQueues, VolcanoRules};

/// A queue of weight 1 that deserves nothing of its own.
pub(crate) fn queue(name: &str) -> VolcanoQueue {
    VolcanoQueue {
        name: name.to_owned(),
        parent: None,
        weight: 1,
        deserved: None,
        guarantee: 0,
        capability: None,
        reclaimable: true,
        priority: 0,
        created: 0,
    }
}

fn weighing(weight: u32) -> VolcanoQueue {
    VolcanoQueue { weight, ..queue("") }
}

fn under(plugin: Plugin, queues: &[VolcanoQueue], leaves: usize) -> VolcanoQueues {
    let rules = VolcanoRules { plugin, ..VolcanoRules::default() };
    VolcanoQueues::new(queues.to_vec(), leaves, rules).unwrap()
}

/// Amounts that queues deserve of so many GPUs with these requests, GPUs.
fn deserved(queues: &[VolcanoQueue], total: u64, requests: &[u64]) -> Vec<f64> {
    let requests: Vec<u64> = requests.iter().map(|gpus| gpus * 1000).collect();
    let due = under(Plugin::Proportion, queues, queues.len()).due(total * 1000, &requests);
    due.deserved.into_iter().map(|amount| (amount as f64 / (FINE * 1000) as f64 * 1e3).round() / 1e3).collect()
}

#[test]
fn weights_divide_what_is_asked_for() {
    assert_eq!(deserved(&[weighing(1), weighing(2), weighing(2)], 10, &[10, 1, 10]), [3.0, 1.0, 6.0]);
    assert_eq!(deserved(&[weighing(1), weighing(2)], 8, &[8, 8]), [2.667, 5.333]);
    // Who asks for nothing has no weight; one alone deserves all that it asks for.
    assert_eq!(deserved(&[weighing(1), weighing(3)], 8, &[20, 0]), [8.0, 0.0]);
    assert_eq!(deserved(&[weighing(1), weighing(3)], 8, &[2, 3]), [2.0, 3.0]);
}

#[test]
fn capabilities_and_guarantees_bound_what_is_due() {
    let capped = VolcanoQueue { capability: Some(2000), ..weighing(4) };
    assert_eq!(deserved(&[weighing(1), capped.clone()], 10, &[20, 20]), [8.0, 2.0]);
    // A guarantee is left free by the others, whether its queue asks for it or not, and it is what that queue deserves at least.
    let guarded = VolcanoQueue { guarantee: 8000, ..weighing(1) };
    assert_eq!(deserved(&[guarded.clone(), weighing(1)], 10, &[10, 10]), [8.0, 2.0]);
    assert_eq!(deserved(&[guarded.clone(), weighing(1)], 10, &[0, 10]), [0.0, 2.0]);
    // With two others they deserve more than there is: 6, and twice a third of 10.
    let guarded = VolcanoQueue { guarantee: 6000, ..weighing(1) };
    assert_eq!(deserved(&[guarded, weighing(1), weighing(1)], 10, &[10, 10, 10]), [6.0, 3.333, 3.333]);
}

#[test]
fn under_capacity_queues_deserve_what_they_are_said_to() {
    let said = |deserved: u64| VolcanoQueue { deserved: Some(deserved * 1000), ..queue("") };
    let below = |deserved: u64| VolcanoQueue { parent: Some(3), ..said(deserved) };
    let guarded = VolcanoQueue { guarantee: 3000, ..said(4) };
    let above = VolcanoQueue { capability: Some(5000), ..said(5) };
    let tree = under(Plugin::Capacity, &[guarded, below(2), below(9), above], 3);
    let due = tree.due(12_000, &[0; 4]);
    // Of 12 GPUs the first leaves 9 to the last, which caps itself at 5; what lies below it deserves 5 at most.
    assert_eq!(due.bounds, [12_000, 5000, 5000, 5000]);
    assert_eq!(due.deserved, [4, 2, 5, 5].map(|gpus| gpus * 1000 * FINE));
    // Nodes are lost: the guarantee stays.
    let due = tree.due(2000, &[0; 4]);
    assert_eq!((due.bounds, due.deserved[0]), (vec![3000, 0, 0, 0], 3000 * FINE));
}

#[test]
fn shares_order_queues_after_their_priorities() {
    let said = |deserved: Option<u64>, priority: i32| VolcanoQueue { deserved, priority, ..queue("") };
    let queues = [said(Some(4000), 0), said(Some(8000), 0), said(None, 0), said(Some(4000), 1)];
    let tree = under(Plugin::Capacity, &queues, 4);
    let due = tree.due(16_000, &[0; 4]);
    let first = |held: [u64; 4], of: &[u16]| tree.first(&due, &held, |leaf| of.contains(&leaf));
    let all = [0, 1, 2, 3];
    assert_eq!(first([0, 0, 0, 4000], &all), Some(3));
    // 3/4 and 5/8; a queue that deserves nothing stands as one that has all that it deserves, and behind it.
    assert_eq!(first([3000, 5000, 0, 0], &all[..3]), Some(1));
    assert_eq!(first([4000, 8000, 0, 0], &all[..3]), Some(0));
    assert_eq!(first([5000, 9000, 0, 0], &all[..3]), Some(2));
    assert_eq!(tree.last(&due, &[4000, 8000, 1, 4000], |_| true), Some(2));
}

#[test]
fn what_contradicts_itself_is_refused() {
    let refused = |queue: VolcanoQueue, leaves: usize, plugin: Plugin| {
        let rules = VolcanoRules { plugin, ..VolcanoRules::default() };
        VolcanoQueues::new(vec![queue], leaves, rules).unwrap_err().to_string()
    };
    let capacity = Plugin::Capacity;
    assert!(refused(weighing(0), 1, capacity).contains("weight"));
    let guarded = VolcanoQueue { guarantee: 2, capability: Some(1), ..queue("a") };
    assert!(refused(guarded, 1, capacity).contains("capability"));
    let guarded = VolcanoQueue { guarantee: 2, deserved: Some(1), ..queue("a") };
    assert!(refused(guarded, 1, capacity).contains("guarantee"));
    let circle = VolcanoQueue { parent: Some(0), ..queue("a") };
    assert!(refused(circle.clone(), 0, capacity).contains("its own parent"));
    assert!(
        VolcanoQueues::new(
            vec![VolcanoQueue { parent: Some(1), ..queue("a") }, queue("b")],
            1,
            VolcanoRules::default()
        )
        .unwrap_err()
        .to_string()
        .contains("capacity alone")
    );
}
