//! A linearizability checker for histories of one key: Wing and Gong's search, with failed states remembered.
//!
//! - Reads change nothing, so they are placed as soon as they fit: the search branches on writes alone.
//! - A write names the state it needs, so at nearly every step only one fits; after a removal several creations may.

use std::collections::HashSet;

use super::Operation;

/// Finds an order of all operations, as indexes, in which the state before each operation allows it, and which respects
/// time: an operation that ended before another began comes first. `first` is the state at the beginning.
///
/// # Errors
/// If there is no such order: the longest prefix of one that was found.
pub fn linearize(first: &Option<String>, operations: &[Operation]) -> Result<Vec<usize>, Vec<usize>> {
    let mut search = Search { operations, failed: HashSet::new(), longest: Vec::new() };
    let mut order = Vec::new();
    let mut placed = vec![false; operations.len()];
    if search.extend(first.clone(), &mut placed, &mut order) { Ok(order) } else { Err(search.longest) }
}

struct Search<'a> {
    operations: &'a [Operation],
    /// Sets of placed operations, with the state after them, that no order continues.
    failed: HashSet<(Vec<bool>, Option<String>)>,
    longest: Vec<usize>,
}

impl Search<'_> {
    fn extend(&mut self, state: Option<String>, placed: &mut Vec<bool>, order: &mut Vec<usize>) -> bool {
        let length = order.len();
        self.place_reads(&state, placed, order);
        if order.len() > self.longest.len() {
            self.longest.clone_from(order);
        }
        if order.len() == self.operations.len() {
            return true;
        }
        let node = (placed.clone(), state);
        if !self.failed.contains(&node) {
            for index in self.enabled(placed) {
                let Some(after) = self.operations[index].effect.apply(&node.1) else { continue };
                placed[index] = true;
                order.push(index);
                if self.extend(after, placed, order) {
                    return true;
                }
                order.pop();
                placed[index] = false;
            }
            self.failed.insert(node);
        }
        for index in order.drain(length..) {
            placed[index] = false;
        }
        false
    }

    /// Places reads that the state allows, until no further one fits.
    fn place_reads(&self, state: &Option<String>, placed: &mut [bool], order: &mut Vec<usize>) {
        loop {
            let fits = |index: &usize| {
                let effect = &self.operations[*index].effect;
                !effect.writes() && effect.apply(state).is_some()
            };
            let Some(index) = self.enabled(placed).into_iter().find(fits) else { return };
            placed[index] = true;
            order.push(index);
        }
    }

    /// The operations that may come next: those that began before any other unplaced one ended.
    fn enabled(&self, placed: &[bool]) -> Vec<usize> {
        let open = || self.operations.iter().enumerate().filter(|(index, _)| !placed[*index]);
        let Some(first_end) = open().map(|(_, operation)| operation.end).min() else { return Vec::new() };
        open().filter(|(_, operation)| operation.start <= first_end).map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::Effect;
    use super::*;

    fn history(rows: &[(u64, u64, Effect)]) -> Vec<Operation> {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let row = |(start, end, effect): &(u64, u64, Effect)| Operation {
            client: 0,
            what: "",
            start: at(*start),
            end: at(*end),
            effect: effect.clone(),
        };
        rows.iter().map(row).collect()
    }

    fn created(etag: &str) -> Effect {
        Effect::Created(etag.to_owned())
    }

    fn swapped(from: &str, to: &str) -> Effect {
        Effect::Swapped { from: from.to_owned(), to: to.to_owned() }
    }

    fn found(etag: &str) -> Effect {
        Effect::Found(Some(etag.to_owned()))
    }

    #[test]
    fn requests_that_overlap_may_have_any_order() {
        let rows = [(0, 9, found("b")), (1, 8, swapped("a", "b")), (2, 7, created("a")), (3, 4, Effect::Found(None))];
        assert_eq!(linearize(&None, &history(&rows)), Ok(vec![3, 2, 1, 0]));
        let again = [(0, 9, created("b")), (0, 9, Effect::Removed("a".to_owned())), (0, 9, created("a"))];
        assert_eq!(linearize(&None, &history(&again)), Ok(vec![2, 1, 0]));
    }

    #[test]
    fn a_read_of_replaced_content_is_found() {
        let rows = [(0, 1, created("a")), (2, 3, swapped("a", "b")), (4, 5, found("a"))];
        assert_eq!(linearize(&None, &history(&rows)), Err(vec![0, 1]));
    }

    #[test]
    fn two_creators_are_found() {
        let rows = [(0, 5, created("a")), (0, 5, created("b")), (0, 5, found("a"))];
        assert!(linearize(&None, &history(&rows)).is_err());
    }

    #[test]
    fn a_refusal_without_a_reason_is_found() {
        let rows = [(0, 1, created("a")), (2, 3, Effect::FoundOther(Some("a".to_owned())))];
        assert!(linearize(&None, &history(&rows)).is_err());
        let rows = [(0, 1, created("a")), (2, 3, Effect::FoundOther(Some("z".to_owned())))];
        assert!(linearize(&None, &history(&rows)).is_ok());
    }
}
