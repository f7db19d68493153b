//! Mounting and unmounting.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use fuse::{Ended, MountpointState, Options, abandon_path, mountpoint_state, unmount_path};
use objstore::volume::VolumeOptions;
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

use crate::rig::{errno, run};

#[test]
fn a_mount_comes_and_goes() {
    run(|rig| {
        let path = rig.folder("m");
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
        let mount = rig.mount("m");
        assert_eq!(mountpoint_state(&path), MountpointState::Amphora);
        assert!(mount.is_alive());
        std::fs::write(path.join("f"), "kept").unwrap();
        assert_eq!(mount.unmount().unwrap(), Ended::Done);
        assert_eq!(mount.unmount().unwrap(), Ended::Done, "once more is fine");
        assert!(!mount.is_alive());
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
        let again = rig.mount("m");
        assert_eq!(std::fs::read_to_string(path.join("f")).unwrap(), "kept");
        drop(mount);
        assert_eq!(mountpoint_state(&path), MountpointState::Amphora, "the next mount there is left alone");
        drop(again);
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
    });
}

#[test]
fn an_unmount_by_others_ends_the_session() {
    run(|rig| {
        let mount = rig.mount("m");
        unmount_path(mount.path()).unwrap();
        assert_eq!(mount.unmount().unwrap(), Ended::Done);
        assert!(!mount.is_alive());
        unmount_path(mount.path()).unwrap();
    });
}

#[test]
fn programs_inside_are_served_past_the_unmount() {
    run(|rig| {
        let mount = rig.mount("m");
        let mut file = std::fs::File::create(mount.path().join("f")).unwrap();
        let start = Instant::now();
        assert_eq!(mount.unmount().unwrap(), Ended::Busy);
        assert!(start.elapsed().as_secs() < 20);
        assert_eq!(mountpoint_state(mount.path()), MountpointState::NotMounted);
        file.write_all(b"late").unwrap();
        assert_eq!(rig.get("f").as_deref(), Some(b"late".as_slice()));
        drop(file);
        assert_eq!(mount.unmount().unwrap(), Ended::Done);
    });
}

/// A mount that nobody serves, and its device.
fn silent(path: &Path) -> OwnedFd {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
    let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).unwrap();
    rustix::mount::mount("dead", path, "fuse.amphora", MountFlags::empty(), data).unwrap();
    device
}

#[test]
fn a_dead_servers_mount_is_stale() {
    run(|rig| {
        let path = rig.folder("m");
        let device = silent(&path);
        let start = Instant::now();
        assert_eq!(mountpoint_state(&path), MountpointState::Silent, "slow is not dead");
        let inside = path.join("f");
        let waiting = std::thread::spawn(move || errno(std::fs::read(inside)));
        abandon_path(&path).unwrap();
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
        // One that asked before the mount was taken away is answered; one that came late finds no file.
        assert!([libc::ECONNABORTED, libc::ENOTCONN, libc::ENOENT].contains(&waiting.join().unwrap()));
        abandon_path(&path).unwrap();
        drop(device);

        let device = silent(&path);
        drop(device);
        // A process that another test starts has the device open too, until it is a program of its own.
        while mountpoint_state(&path) != MountpointState::Stale {
            assert!(start.elapsed().as_secs() < 20, "who is dead is told from who is slow");
        }
        unmount_path(&path).unwrap();
        assert_eq!(mountpoint_state(&path), MountpointState::NotMounted);
    });
}

#[test]
fn bad_mounts_are_refused() {
    run(|rig| {
        let volume = || rig.volume(VolumeOptions::default());
        let path = rig.folder("m");
        std::fs::write(rig.folder("other").join("file"), "").unwrap();
        let refused = |path: &std::path::Path, options| match fuse::mount(volume(), path, options) {
            Ok(_) => panic!("mounted at {}", path.display()),
            Err(error) => error.to_string(),
        };
        assert!(refused(&path.join("absent"), Options::default()).contains("absent"));
        assert!(refused(&rig.folder("other").join("file"), Options::default()).contains("not a directory"));
        assert!(refused(&path, Options { umask: 0o1000, ..Options::default() }).contains("umask"));
        let _mount = rig.mount("m");
        assert!(refused(&path, Options::default()).contains("unmount it first"));
    });
}

#[test]
fn a_read_only_mount_changes_nothing() {
    run(|rig| {
        rig.put("f", b"kept");
        let by_volume = VolumeOptions { read_only: true, ..VolumeOptions::default() };
        let by_option = Options { read_only: true, ..Options::default() };
        let mounts = [
            rig.mount_with("a", by_volume, Options::default()),
            rig.mount_with("b", VolumeOptions::default(), by_option),
        ];
        for mount in &mounts {
            let path = mount.path().join("f");
            assert_eq!(std::fs::read(&path).unwrap(), b"kept");
            assert_eq!(errno(std::fs::write(&path, "changed")), libc::EROFS);
            assert_eq!(errno(std::fs::write(mount.path().join("g"), "")), libc::EROFS);
            assert_eq!(errno(std::fs::remove_file(&path)), libc::EROFS);
            assert_eq!(errno(std::fs::create_dir(mount.path().join("d"))), libc::EROFS);
        }
        assert_eq!(rig.get("f").as_deref(), Some(b"kept".as_slice()));
    });
}

#[test]
fn a_directory_of_the_bucket_can_be_the_root() {
    run(|rig| {
        rig.put("above", b"hidden");
        rig.put("some/where/f", b"shown");
        let below = VolumeOptions { prefix: "some/where".into(), ..VolumeOptions::default() };
        let mount = rig.mount_with("m", below, Options::default());
        assert_eq!(std::fs::read(mount.path().join("f")).unwrap(), b"shown");
        assert_eq!(std::fs::read_dir(mount.path()).unwrap().count(), 1);
        assert!(!mount.path().join("above").exists());
        std::fs::create_dir(mount.path().join("d")).unwrap();
        std::fs::write(mount.path().join("d/g"), "new").unwrap();
        assert_eq!(rig.get("some/where/d/g").as_deref(), Some(b"new".as_slice()));
        rig.put("some/where/f", b"shown anew");
        assert_eq!(std::fs::read(mount.path().join("f")).unwrap(), b"shown anew");
        rig.put("some/where/h", b"");
        assert!(mount.path().join("h").exists());
    });
}
