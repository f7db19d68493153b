//! What a call of this session changes: names, and attributes of inodes.

use objstore_files::{Attr, AttributeOp, ContentOp, NameOp, Op};

use super::state::{Name, State};

/// What a call changes.
pub(super) struct Effects {
    inos: Vec<u64>,
    names: Vec<(u64, Box<str>)>,
    /// Whether it also changes the attributes of what its names lead to.
    reaches: bool,
    /// Whether it may give capabilities or flags to a file.
    protects: bool,
    /// Whether it changes the attributes of an inode that is not known here.
    is_open: bool,
}

/// The effects of an operation; `None` if it changes nothing that is kept here.
pub(super) fn of(op: &Op<'_>) -> Option<Effects> {
    let inode =
        |ino: u64| Effects { inos: vec![ino], names: Vec::new(), reaches: false, protects: false, is_open: false };
    let entry = |parent: u64, name: &str, reaches: bool| {
        let names = vec![(parent, name.into())];
        Effects { names, reaches, ..inode(parent) }
    };
    Some(match op {
        Op::Names(NameOp::Make { parent, name, .. } | NameOp::Create { parent, name, .. }) => {
            entry(*parent, name, false)
        }
        Op::Names(NameOp::Link { ino, parent, name }) => {
            let mut effects = entry(*parent, name, false);
            effects.inos.push(*ino);
            effects
        }
        Op::Names(NameOp::Unlink { parent, name } | NameOp::RemoveDir { parent, name }) => entry(*parent, name, true),
        Op::Names(NameOp::Rename { rename }) => {
            let mut effects = entry(rename.from_parent, &rename.from_name, true);
            effects.inos.push(rename.to_parent);
            effects.names.push((rename.to_parent, rename.to_name.as_str().into()));
            effects
        }
        Op::Attributes(
            AttributeOp::SetXattr { ino, .. }
            | AttributeOp::RemoveXattr { ino, .. }
            | AttributeOp::SetAcl { ino, .. }
            | AttributeOp::RemoveAcl { ino, .. }
            | AttributeOp::SetFlags { ino, .. },
        ) => Effects { protects: true, ..inode(*ino) },
        Op::Attributes(AttributeOp::SetAttr { ino, .. } | AttributeOp::LosePrivileges { ino, .. }) => inode(*ino),
        Op::Content(
            ContentOp::Write { ino, .. }
            | ContentOp::WriteBack { ino, .. }
            | ContentOp::Append { ino }
            | ContentOp::Recall { ino }
            | ContentOp::Allocate { ino, .. }
            | ContentOp::Sync { ino, .. },
        ) => inode(*ino),
        Op::Content(ContentOp::CopyRange { from, to, .. }) => {
            let mut effects = inode(to.ino);
            effects.inos.push(from.ino);
            effects
        }
        _ => return None,
    })
}

impl Effects {
    /// The call is about to be sent: what it concerns is neither served nor kept until it is answered.
    pub(super) fn begin(&mut self, state: &mut State) {
        for (parent, name) in &self.names {
            match state.name(*parent, name) {
                Name::Leads(ino) => self.inos.push(ino),
                Name::Unknown => self.is_open |= self.reaches,
                Name::Absent => {}
            }
        }
        self.drop_all(state);
        self.inos.iter().for_each(|ino| state.begin_change(*ino));
    }

    /// The call is answered; whether nothing else concerned the same names and inodes meanwhile. Of what the store told
    /// besides, what nothing else concerned is kept.
    pub(super) fn finish(&self, state: &mut State, stamp: u64, told: &[Attr]) -> bool {
        self.inos.iter().for_each(|ino| state.end_change(*ino));
        let names = self.names.iter().all(|(parent, name)| state.is_name_since(stamp, *parent, name));
        let clean = names && self.inos.iter().all(|ino| state.is_attr_since(stamp, *ino));
        let is_kept = |attr: &&Attr| self.inos.contains(&attr.ino) && state.is_attr_since(stamp, attr.ino);
        let kept: Vec<Attr> = told.iter().filter(is_kept).copied().collect();
        self.drop_all(state);
        kept.into_iter().for_each(|attr| state.set_attr(attr));
        clean
    }

    fn drop_all(&self, state: &mut State) {
        self.names.iter().for_each(|(parent, name)| state.drop_name(*parent, name));
        for ino in &self.inos {
            if self.protects {
                state.drop_node(*ino);
            } else {
                state.drop_attr(*ino);
            }
        }
        if self.is_open {
            state.drop_attrs();
        }
    }
}
