//! Mounting and unmounting.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fuse::{Ended, MountpointState, Options, abandon_path, mountpoint_state, unmount_path};
use objstore::volume::VolumeOptions;
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

use crate::test_store::{errno, run};

#[test]
fn a_mount_comes_and_goes() {
    run(|test| {
        let path = test.folder("m");
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
        let mount = test.mount("m");
        assert_eq!(mountpoint_state(&path), MountpointState::Amphora);
        assert!(mount.is_alive());
        std::fs::write(path.join("f"), "kept").unwrap();
        assert_eq!(mount.unmount().unwrap(), Ended::Done);
        assert_eq!(mount.unmount().unwrap(), Ended::Done, "a second unmount succeeds");
        assert!(!mount.is_alive());
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
        let again = test.mount("m");
        assert_eq!(std::fs::read_to_string(path.join("f")).unwrap(), "kept");
        drop(mount);
        assert_eq!(mountpoint_state(&path), MountpointState::Amphora, "a later mount at the path is not touched");
        drop(again);
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
    });
}

#[test]
fn an_unmount_by_others_ends_the_session() {
    run(|test| {
        let mount = test.mount("m");
        unmount_path(mount.path()).unwrap();
        assert_eq!(mount.unmount().unwrap(), Ended::Done);
        assert!(!mount.is_alive());
        unmount_path(mount.path()).unwrap();
    });
}

#[test]
fn programs_inside_are_served_past_the_unmount() {
    run(|test| {
        let mount = test.mount("m");
        let mut file = std::fs::File::create(mount.path().join("f")).unwrap();
        let start = Instant::now();
        assert_eq!(mount.unmount().unwrap(), Ended::Busy);
        assert!(start.elapsed().as_secs() < 20);
        assert_eq!(mountpoint_state(mount.path()), MountpointState::NotMounted);
        file.write_all(b"late").unwrap();
        assert_eq!(test.get("f").as_deref(), Some(b"late".as_slice()));
        drop(file);
        assert_eq!(mount.unmount().unwrap(), Ended::Done);
    });
}

/// A mount that no process serves, and its device.
fn silent(path: &Path) -> OwnedFd {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
    let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).unwrap();
    rustix::mount::mount("dead", path, "fuse.amphora", MountFlags::empty(), data).unwrap();
    device
}

#[test]
fn a_dead_servers_mount_is_stale() {
    run(|test| {
        let path = test.folder("m");
        let device = silent(&path);
        let start = Instant::now();
        assert_eq!(mountpoint_state(&path), MountpointState::Silent, "a slow server is not a dead one");
        let inside = path.join("f");
        let waiting = std::thread::spawn(move || errno(std::fs::read(inside)));
        abandon_path(&path).unwrap();
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
        // A request sent before the unmount is answered; one sent afterwards finds no file.
        assert!([libc::ECONNABORTED, libc::ENOTCONN, libc::ENOENT].contains(&waiting.join().unwrap()));
        abandon_path(&path).unwrap();
        drop(device);

        let device = silent(&path);
        drop(device);
        // A child that another test starts also has the device open until it executes its program.
        while mountpoint_state(&path) != MountpointState::Stale {
            assert!(start.elapsed().as_secs() < 20, "a dead server is distinguished from a slow one in time");
        }
        unmount_path(&path).unwrap();
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
    });
}

#[test]
fn bad_mounts_are_refused() {
    run(|test| {
        let files = || test.files(VolumeOptions::default());
        let path = test.folder("m");
        std::fs::write(test.folder("other").join("file"), "").unwrap();
        let refused = |path: &std::path::Path, options| match fuse::mount(files(), path, options) {
            Ok(_) => panic!("mounted at {}", path.display()),
            Err(error) => error.to_string(),
        };
        assert!(refused(&path.join("absent"), Options::default()).contains("absent"));
        assert!(refused(&test.folder("other").join("file"), Options::default()).contains("not a directory"));
        assert!(refused(&path, Options { umask: 0o1000, ..Options::default() }).contains("umask"));
        let _mount = test.mount("m");
        assert!(refused(&path, Options::default()).contains("unmount it first"));
    });
}

#[test]
fn a_read_only_mount_changes_nothing() {
    run(|test| {
        test.put("f", b"kept");
        let by_volume = VolumeOptions { read_only: true, ..VolumeOptions::default() };
        let by_option = Options { read_only: true, ..Options::default() };
        let mounts = [
            test.mount_with("a", by_volume, Options::default()),
            test.mount_with("b", VolumeOptions::default(), by_option),
        ];
        for mount in &mounts {
            let path = mount.path().join("f");
            assert_eq!(std::fs::read(&path).unwrap(), b"kept");
            assert_eq!(errno(std::fs::write(&path, "changed")), libc::EROFS);
            assert_eq!(errno(std::fs::write(mount.path().join("g"), "")), libc::EROFS);
            assert_eq!(errno(std::fs::remove_file(&path)), libc::EROFS);
            assert_eq!(errno(std::fs::create_dir(mount.path().join("d"))), libc::EROFS);
        }
        assert_eq!(test.get("f").as_deref(), Some(b"kept".as_slice()));
    });
}

#[test]
fn a_directory_of_the_bucket_can_be_the_root() {
    run(|test| {
        test.put("above", b"hidden");
        test.put("some/where/f", b"shown");
        let below = VolumeOptions { prefix: "some/where".into(), ..VolumeOptions::default() };
        let mount = test.mount_with("m", below, Options::default());
        assert_eq!(std::fs::read(mount.path().join("f")).unwrap(), b"shown");
        assert_eq!(std::fs::read_dir(mount.path()).unwrap().count(), 1);
        assert!(!mount.path().join("above").exists());
        std::fs::create_dir(mount.path().join("d")).unwrap();
        std::fs::write(mount.path().join("d/g"), "new").unwrap();
        assert_eq!(test.get("some/where/d/g").as_deref(), Some(b"new".as_slice()));
        test.put("some/where/f", b"shown again");
        assert_eq!(std::fs::read(mount.path().join("f")).unwrap(), b"shown again");
        test.put("some/where/h", b"");
        assert!(mount.path().join("h").exists());
    });
}

/// Replaces a folder on the way by links to another user's folder, again and again, as its owner may.
fn swap_as_its_owner(theirs: &Path, elsewhere: &Path, going: &AtomicBool) {
    // SAFETY: setfsuid(2) changes only the user id that this thread has for file systems.
    unsafe { libc::setfsuid(1234) };
    let (way, aside) = (theirs.join("way"), theirs.join("aside"));
    while going.load(Ordering::Relaxed) {
        if rustix::fs::rename(&way, &aside).is_ok() {
            let _ = std::os::unix::fs::symlink(elsewhere, &way);
            let _ = std::fs::remove_file(&way);
            let _ = rustix::fs::rename(&aside, &way);
        }
        // A pause, so that a mount succeeds now and then.
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

#[test]
fn a_folder_on_the_way_that_is_swapped_leads_no_mount_elsewhere() {
    run(|test| {
        let (theirs, elsewhere) = (test.folder("theirs"), test.folder("elsewhere"));
        let (dir, victim) = (theirs.join("way/m"), elsewhere.join("m"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::create_dir(&victim).unwrap();
        for path in [&theirs, &theirs.join("way")] {
            std::os::unix::fs::chown(path, Some(1234), None).unwrap();
        }
        let (going, mut made) = (AtomicBool::new(true), 0);
        std::thread::scope(|threads| {
            threads.spawn(|| swap_as_its_owner(&theirs, &elsewhere, &going));
            for _ in 0..300 {
                if let Ok(mount) = fuse::mount(test.files(VolumeOptions::default()), &dir, Options::default()) {
                    made += 1;
                    assert_eq!(
                        mountpoint_state(&victim),
                        MountpointState::NotMounted,
                        "the mount covers another directory"
                    );
                    // The mount may not be found while the folder is elsewhere.
                    while mount.is_alive() {
                        let _ = rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::NOFOLLOW);
                        let _ = rustix::mount::unmount(theirs.join("aside/m"), rustix::mount::UnmountFlags::NOFOLLOW);
                        std::thread::yield_now();
                    }
                }
                assert_eq!(
                    mountpoint_state(&victim),
                    MountpointState::NotMounted,
                    "the mount covers another directory"
                );
            }
            going.store(false, Ordering::Relaxed);
        });
        assert!(made > 0, "it was never mounted at all");
    });
}

#[test]
fn an_unmount_by_path_follows_no_link_of_somebody_else() {
    run(|test| {
        let (theirs, other) = (test.folder("theirs"), test.mount("m"));
        let link = theirs.join("way");
        std::os::unix::fs::symlink(other.path().parent().unwrap(), &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(1234), None).unwrap();
        assert!(unmount_path(&link.join("m")).is_err() && abandon_path(&link.join("m")).is_err());
        assert_eq!(mountpoint_state(other.path()), MountpointState::Amphora);
        std::fs::write(other.path().join("f"), "it is served").unwrap();
    });
}

#[test]
fn a_mount_that_is_over_leaves_the_next_one_at_its_directory_alone() {
    run(|test| {
        // The kernel reuses a device number as soon as it is free.
        for _ in 0..20 {
            let first = test.mount("m");
            rustix::mount::unmount(first.path(), rustix::mount::UnmountFlags::empty()).unwrap();
            while first.is_alive() {
                std::thread::yield_now();
            }
            let second = test.mount("m");
            drop(first);
            assert_eq!(mountpoint_state(second.path()), MountpointState::Amphora);
        }
    });
}

#[test]
fn a_busy_mount_is_unmounted_only_lazily() {
    run(|test| {
        let mount = test.mount("m");
        let file = std::fs::File::create(mount.path().join("f")).unwrap();
        let refused = mount.unmount_idle().unwrap_err();
        let own = std::process::id();
        assert!(matches!(&refused, fuse::Error::InUse { users, .. } if users.iter().any(|user| user.pid == own)));
        assert!(refused.to_string().contains(&own.to_string()), "{refused}");
        assert!(mount.is_attached());
        drop(file);
        assert_eq!(mount.unmount_idle().unwrap(), Ended::Done);
    });
}
