//! The staging and target paths that callers give.
//!
//! - A path is absolute, has no `..`, and is not the root.
//! - Only the parent folder is ever looked up: the path itself may be a mount whose server is dead or slow.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use tonic::Status;

/// Parses the path in `field`, and resolves its parent folder to the form in the kernel's list of mounts.
pub(crate) fn parse(field: &str, given: &str) -> Result<PathBuf, Status> {
    crate::status::required(field, given)?;
    let path = Path::new(given);
    let refuse = |why: &str| Err(Status::invalid_argument(format!("{field} \"{given}\" is not valid: {why}")));
    if !path.is_absolute() {
        return refuse("it has to be an absolute path");
    }
    if given.contains('\0') || path.components().any(|part| part == Component::ParentDir) {
        return refuse("it must hold neither \"..\" nor a NUL byte");
    }
    if path.file_name().is_none() {
        return refuse("it must not be the root of the file system");
    }
    Ok(resolve(path))
}

/// `path` with its parent folder resolved, if that exists.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.components().collect(),
    }
}

/// Refuses a staging path that is not a real folder. Call it only if nothing is mounted there.
pub(crate) fn check_staging_dir(path: &Path) -> Result<(), Status> {
    let refuse =
        |why: String| Err(Status::failed_precondition(format!("staging_target_path \"{}\" {why}", path.display())));
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => refuse("is a symbolic link; give the folder itself".into()),
        Ok(found) if !found.is_dir() => refuse("is not a folder; the caller has to make one".into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => refuse("does not exist; the caller has to make it".into()),
        Err(error) => refuse(format!("cannot be accessed: {error}")),
    }
}

/// Creates the target folder in a parent that the caller made. Returns whether it was created now. Call it only if
/// nothing is mounted there.
pub(crate) fn make_target_dir(path: &Path) -> Result<bool, Status> {
    let refuse = |why: String| Err(Status::failed_precondition(format!("target_path \"{}\" {why}", path.display())));
    match fs::DirBuilder::new().mode(0o750).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => check_empty(path).map(|()| false),
            Ok(_) => refuse("exists and is not a folder; remove it".into()),
            Err(error) => refuse(format!("cannot be accessed: {error}")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => refuse("has no parent; the caller has to make it".into()),
        Err(error) => refuse(format!("cannot be made: {error}")),
    }
}

/// Creates the empty target file of a block volume in a folder that the caller made. Returns whether it was created now.
/// Call it only if nothing is mounted there.
pub(crate) fn make_target_file(path: &Path) -> Result<bool, Status> {
    let refuse = |why: String| Err(Status::failed_precondition(format!("target_path \"{}\" {why}", path.display())));
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(found) if found.is_file() && found.len() == 0 => Ok(false),
            Ok(_) => refuse("exists and is not an empty file; remove it".into()),
            Err(error) => refuse(format!("cannot be accessed: {error}")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => refuse("has no parent; the caller has to make it".into()),
        Err(error) => refuse(format!("cannot be made: {error}")),
    }
}

/// Removes the target file of a block volume if it exists. A file with content is not deleted.
pub(crate) fn remove_target_file(path: &Path) -> Result<(), Status> {
    let refuse = |why: String| Err(Status::failed_precondition(format!("target_path \"{}\" {why}", path.display())));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(found) if found.is_file() && found.len() == 0 => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => refuse(format!("cannot be removed: {error}")),
            _ => Ok(()),
        },
        Ok(_) => refuse("is not the empty file that was made there; move it to another folder".into()),
        Err(error) => refuse(format!("cannot be accessed: {error}")),
    }
}

/// Refuses a non-empty folder: the volume would hide its content, and the folder could not be removed later.
fn check_empty(path: &Path) -> Result<(), Status> {
    let refuse = |why: String| Err(Status::failed_precondition(format!("target_path \"{}\" {why}", path.display())));
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => refuse("is not empty; move its content to another folder".into()),
        Err(error) => refuse(format!("cannot be accessed: {error}")),
    }
}

/// Removes the target folder if it exists. Its content is never deleted, since a mount may have been meant to hide it.
pub(crate) fn remove_target_dir(path: &Path) -> Result<(), Status> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Err(Status::failed_precondition(format!(
            "target_path \"{}\" contains files that are not the volume's and are not deleted; move them to another folder",
            path.display()
        ))),
        Err(error) => {
            Err(Status::failed_precondition(format!("target_path \"{}\" cannot be removed: {error}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_mean_another_place_are_refused() {
        for given in ["", "relative/path", "/", "//", "/a/../b", "/a/..", "/a\0b"] {
            assert_eq!(parse("target_path", given).unwrap_err().code(), tonic::Code::InvalidArgument, "{given:?}");
        }
        assert_eq!(parse("target_path", "/no/such//folder/").unwrap(), Path::new("/no/such/folder"));
    }

    #[test]
    fn the_folder_above_is_resolved_and_the_path_itself_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        assert_eq!(resolve(&real.join("link/leaf")), real.join("leaf"));
        assert_eq!(resolve(&real.join("link")), real.join("link"));
    }

    #[test]
    fn a_staging_path_is_a_real_folder() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("dir"), at("link")).unwrap();
        assert!(check_staging_dir(&at("dir")).is_ok());
        for name in ["file", "link", "absent"] {
            assert_eq!(check_staging_dir(&at(name)).unwrap_err().code(), tonic::Code::FailedPrecondition, "{name}");
        }
    }

    #[test]
    fn target_folders_are_made_once_and_removed_only_when_empty() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        assert!(make_target_dir(&target).unwrap());
        assert!(!make_target_dir(&target).unwrap());
        fs::write(target.join("file"), "kept").unwrap();
        assert_eq!(make_target_dir(&target).unwrap_err().code(), tonic::Code::FailedPrecondition);
        assert_eq!(remove_target_dir(&target).unwrap_err().code(), tonic::Code::FailedPrecondition);
        assert!(target.join("file").exists());
        fs::remove_file(target.join("file")).unwrap();
        remove_target_dir(&target).unwrap();
        remove_target_dir(&target).unwrap();
        assert!(make_target_dir(&dir.path().join("absent/target")).is_err());
    }

    #[test]
    fn target_files_are_made_once_and_removed_only_when_empty() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        assert!(make_target_file(&target).unwrap() && !make_target_file(&target).unwrap());
        fs::write(&target, "kept").unwrap();
        assert_eq!(make_target_file(&target).unwrap_err().code(), tonic::Code::FailedPrecondition);
        assert_eq!(remove_target_file(&target).unwrap_err().code(), tonic::Code::FailedPrecondition);
        fs::write(&target, "").unwrap();
        remove_target_file(&target).unwrap();
        remove_target_file(&target).unwrap();
        fs::create_dir(&target).unwrap();
        assert!(make_target_file(&target).is_err() && remove_target_file(&target).is_err());
    }
}
