//! Which open files were opened at which opening of the store.
//!
//! A store that was opened again has not counted the writers of before. A close of one of those has to say so, and the
//! mount does not know, because the session goes on. At the opening of the store that this process found first, the mount
//! knows it by itself.

use std::collections::HashMap;

use node_session::Boot;
use objstore_files::{NameOp, Op, OpenOp, Reply};
use parking_lot::Mutex;

/// Files open for writing, with how often the present opening of the store has counted each.
#[derive(Default)]
pub(crate) struct Writers(Mutex<State>);

#[derive(Default)]
struct State {
    /// The opening of the store that this process found first.
    first: Option<Boot>,
    boot: Boot,
    open: HashMap<u64, u64>,
}

impl Writers {
    /// The operation as the store with this opening has to see it.
    pub(crate) fn translate<'a>(&self, op: Op<'a>, boot: Boot) -> Op<'a> {
        let Op::Opens(OpenOp::CloseWriter { ino, inherited: false }) = op else { return op };
        let state = self.0.lock();
        let is_first = state.first.is_none_or(|first| first == boot);
        let is_counted = state.boot == boot && state.open.contains_key(&ino);
        OpenOp::CloseWriter { ino, inherited: !is_first && !is_counted }.into()
    }

    /// The session is open with this opening of the store.
    pub(crate) fn opened(&self, boot: Boot) {
        self.0.lock().first.get_or_insert(boot);
    }

    /// The store of this opening has executed an operation.
    pub(crate) fn done(&self, op: &Op<'_>, reply: &Reply, boot: Boot) {
        let opened = match (op, reply) {
            (Op::Opens(OpenOp::OpenWriter { ino }), _) => Some(*ino),
            (Op::Names(NameOp::Create { .. } | NameOp::CreateNameless { .. }), Reply::Attr(made)) => Some(made.ino),
            _ => None,
        };
        let state = &mut *self.0.lock();
        if boot > state.boot {
            *state = State { boot, open: HashMap::new(), ..*state };
        }
        if boot != state.boot {
            return;
        }
        if let Some(ino) = opened {
            *state.open.entry(ino).or_default() += 1;
        } else if let Op::Opens(OpenOp::CloseWriter { ino, inherited: false }) = op
            && let Some(count) = state.open.get_mut(ino)
        {
            *count -= 1;
            if *count == 0 {
                state.open.remove(ino);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_of_an_earlier_opening_is_closed_as_inherited() {
        let writers = Writers::default();
        let open: Op<'_> = OpenOp::OpenWriter { ino: 7 }.into();
        let close = |boot| writers.translate(OpenOp::CloseWriter { ino: 7, inherited: false }.into(), Boot(boot));
        let done = Reply::Done(());
        writers.opened(Boot(1));
        assert!(matches!(close(1), Op::Opens(OpenOp::CloseWriter { inherited: false, .. })), "of an earlier process");
        writers.done(&open, &done, Boot(1));
        writers.opened(Boot(2));
        let counted = OpenOp::CloseWriter { ino: 7, inherited: false }.into();
        let inherited = OpenOp::CloseWriter { ino: 7, inherited: true }.into();
        assert_eq!((close(1), close(2)), (counted, inherited));
        writers.done(&open, &done, Boot(2));
        writers.done(&open, &done, Boot(1));
        writers.done(&close(2), &done, Boot(2));
        assert!(matches!(close(2), Op::Opens(OpenOp::CloseWriter { inherited: true, .. })), "only one was counted");
    }
}
