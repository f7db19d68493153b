//! The effect of system calls on the model, and the error numbers with which they fail.

use rustix::io::Errno;

use super::model::{Actor, File, Model, Name, parent};
use super::step::{Mode, Refusal};

type Done = Result<(), Refusal>;

impl Model {
    /// open(2) with O_CREAT and O_TRUNC, and one write(2).
    pub fn write(&mut self, path: &str, content: &[u8]) -> Done {
        let id = match self.entry(path)? {
            Some(key) => self.open_file(&key)?,
            None => {
                let id = self.add_file(File::new(Vec::new()));
                self.names.insert(path.to_owned(), Name::File(id));
                id
            }
        };
        let file = self.files.get_mut(&id).expect("named");
        if file.content.is_empty() {
            file.maybe_changed();
        } else {
            file.changed();
        }
        file.content.clear();
        self.write_at(path, 0, content)
    }

    /// open(2) with O_APPEND, and one write(2).
    pub fn append(&mut self, path: &str, content: &[u8]) -> Done {
        let id = self.existing_file(path)?;
        self.write_into(id, self.files[&id].content.len(), content)
    }

    /// One pwrite(2).
    pub fn write_at(&mut self, path: &str, offset: usize, content: &[u8]) -> Done {
        let id = self.existing_file(path)?;
        self.write_into(id, offset, content)
    }

    fn write_into(&mut self, id: u64, offset: usize, content: &[u8]) -> Done {
        if content.is_empty() {
            return Ok(());
        }
        let end = offset + content.len();
        self.grow(id, end)?;
        let file = self.files.get_mut(&id).expect("named");
        file.content[offset..end].copy_from_slice(content);
        file.changed();
        Ok(())
    }

    /// ftruncate(2).
    pub fn truncate(&mut self, path: &str, size: usize) -> Done {
        let id = self.existing_file(path)?;
        self.grow(id, size)?;
        let file = self.files.get_mut(&id).expect("named");
        if file.content.len() == size {
            file.maybe_changed();
        } else {
            file.changed();
        }
        file.content.truncate(size);
        Ok(())
    }

    /// Extends a file with zeros to `size`, if it is shorter.
    fn grow(&mut self, id: u64, size: usize) -> Done {
        let growth = size.saturating_sub(self.files[&id].content.len());
        if self.over(growth as u64, 0) {
            return Err(Errno::DQUOT.into());
        }
        let file = self.files.get_mut(&id).expect("named");
        if growth > 0 {
            file.content.resize(size, 0);
            file.changed();
        }
        Ok(())
    }

    /// chmod(2).
    pub fn chmod(&mut self, path: &str, mode: u32) -> Done {
        match self.entry(path)? {
            Some(key) => {
                if let Some(id) = self.file_at(&key) {
                    self.files.get_mut(&id).expect("named").mode = Some(mode);
                }
                Ok(())
            }
            None => Err(Errno::NOENT.into()),
        }
    }

    /// futimens(2) on a file.
    pub fn set_time(&mut self, path: &str, seconds: i64) -> Done {
        let id = self.existing_file(path)?;
        self.files.get_mut(&id).expect("named").mtime = Some(seconds);
        Ok(())
    }

    /// mkdir(2).
    pub fn make_dir(&mut self, path: &str) -> Done {
        self.free(path)?;
        self.names.insert(format!("{path}/"), Name::Directory { explicit: true });
        Ok(())
    }

    /// rmdir(2).
    pub fn remove_dir(&mut self, path: &str) -> Done {
        let key = self.entry(path)?.ok_or(Errno::NOENT)?;
        if !key.ends_with('/') {
            return Err(Errno::NOTDIR.into());
        }
        if self.children(&key).next().is_some() {
            return Err(Errno::NOTEMPTY.into());
        }
        self.remove(&key, Actor::Mount);
        Ok(())
    }

    /// unlink(2).
    pub fn unlink(&mut self, path: &str) -> Done {
        let key = self.entry(path)?.ok_or(Errno::NOENT)?;
        if key.ends_with('/') {
            return Err(Errno::ISDIR.into());
        }
        self.remove(&key, Actor::Mount);
        Ok(())
    }

    /// symlink(2).
    pub fn symlink(&mut self, target: &str, path: &str) -> Done {
        self.free(path)?;
        self.names.insert(path.to_owned(), Name::Link(target.to_owned()));
        Ok(())
    }

    /// link(2).
    pub fn link(&mut self, from: &str, to: &str) -> Done {
        let source = self.entry(from)?.ok_or(Errno::NOENT)?;
        self.free(to)?;
        if source.ends_with('/') {
            return Err(Errno::PERM.into());
        }
        self.names.insert(to.to_owned(), self.names[&source].clone());
        Ok(())
    }

    /// renameat2(2), with its checks in the order of the kernel.
    pub fn rename(&mut self, from: &str, to: &str, mode: Mode) -> Done {
        self.directory_of(from)?;
        self.directory_of(to)?;
        let source = self.entry(from)?.ok_or(Errno::NOENT)?;
        let target = self.entry(to)?;
        match (mode, &target) {
            (Mode::NoReplace, Some(_)) => return Err(Errno::EXIST.into()),
            (Mode::Exchange, None) => return Err(Errno::NOENT.into()),
            _ => {}
        }
        if source.ends_with('/') && to.starts_with(&source) {
            return Err(Errno::INVAL.into());
        }
        if target.as_ref().is_some_and(|target| target.ends_with('/') && from.starts_with(target.as_str())) {
            return Err(if mode == Mode::Exchange { Errno::INVAL } else { Errno::NOTEMPTY }.into());
        }
        match target {
            Some(target) if source == target || self.same_file(&source, &target) => Ok(()),
            Some(target) if mode == Mode::Exchange => self.exchange(&source, &target),
            Some(target) => self.replace(&source, &target),
            None => {
                let name = if source.ends_with('/') { format!("{to}/") } else { to.to_owned() };
                self.move_tree(&source, &name);
                self.update_implicit(parent(&source), Actor::Mount);
                Ok(())
            }
        }
    }

    fn replace(&mut self, source: &str, target: &str) -> Done {
        match (source.ends_with('/'), target.ends_with('/')) {
            (true, false) => return Err(Errno::NOTDIR.into()),
            (false, true) => return Err(Errno::ISDIR.into()),
            (true, true) if self.children(target).next().is_some() => return Err(Errno::NOTEMPTY.into()),
            _ => {}
        }
        self.move_tree(source, target);
        self.update_implicit(parent(target), Actor::Mount);
        self.update_implicit(parent(source), Actor::Mount);
        self.collect();
        Ok(())
    }

    fn exchange(&mut self, source: &str, target: &str) -> Done {
        let kind = |key: &str| if key.ends_with('/') { "/" } else { "" };
        let bare = |key: &str| key.trim_end_matches('/').to_owned();
        let (new_source, new_target) = (bare(source) + kind(target), bare(target) + kind(source));
        let mixed = kind(source) != kind(target);
        // A key beside the directory, which the mount cannot show, is in the way.
        if mixed && [&new_source, &new_target].iter().any(|key| self.names.contains_key(*key)) {
            return Err(Errno::EXIST.into());
        }
        // No name of a step has this character.
        self.move_tree(target, "\u{1}/");
        self.move_tree(source, &new_target);
        self.move_tree("\u{1}/", &new_source);
        self.update_implicit(parent(source), Actor::Mount);
        self.update_implicit(parent(target), Actor::Mount);
        Ok(())
    }

    /// Moves a name and, for a directory, everything below it.
    fn move_tree(&mut self, from: &str, to: &str) {
        let below = |key: &String| key == from || from.ends_with('/') && key.starts_with(from);
        let keys: Vec<String> = self.names.keys().filter(|key| below(key)).cloned().collect();
        for key in keys {
            let name = self.names.remove(&key).expect("just seen");
            self.names.insert(format!("{to}{}", &key[from.len()..]), name);
        }
    }

    fn same_file(&self, one: &str, two: &str) -> bool {
        self.file_at(one).is_some_and(|id| self.file_at(two) == Some(id))
    }

    /// The name that a mount shows at a path, whose directory must exist.
    pub fn entry(&self, path: &str) -> Result<Option<String>, Refusal> {
        self.directory_of(path)?;
        Ok(self.shown(path))
    }

    fn directory_of(&self, path: &str) -> Done {
        for (at, _) in path.match_indices('/') {
            match self.shown(&path[..at]) {
                Some(key) if key.ends_with('/') => {}
                Some(key) if self.file_at(&key).is_some() => return Err(Errno::NOTDIR.into()),
                // Symbolic links lead nowhere here.
                _ => return Err(Errno::NOENT.into()),
            }
        }
        Ok(())
    }

    fn free(&self, path: &str) -> Done {
        match self.entry(path)? {
            Some(_) => Err(Errno::EXIST.into()),
            None => Ok(()),
        }
    }

    /// The file that a path leads to, as open(2) for writing finds it.
    pub fn existing_file(&self, path: &str) -> Result<u64, Refusal> {
        let key = self.entry(path)?.ok_or(Errno::NOENT)?;
        self.open_file(&key)
    }

    fn open_file(&self, key: &str) -> Result<u64, Refusal> {
        match self.names.get(key) {
            Some(Name::File(id)) => Ok(*id),
            Some(Name::Directory { .. }) => Err(Errno::ISDIR.into()),
            Some(Name::Link(_)) | None => Err(Errno::NOENT.into()),
        }
    }
}
