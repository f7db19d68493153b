//! Extended attributes: as on ext4, call by call; and the S3 attributes of objects.

use std::path::Path;

use objstore::store::Headers;
use rustix::fs::{
    XattrFlags, getxattr, lgetxattr, listxattr, llistxattr, lremovexattr, lsetxattr, removexattr, setxattr,
};

use crate::folder_pair::{FolderPair, MEMBER, OTHER, OWNER, ROOT, acting, chmod, shell, told};
use crate::test_store::{TestStore, run_all};

/// The names, sorted, without those that show the object.
fn names(path: &Path) -> Result<Vec<String>, i32> {
    let mut list = vec![0; 65_536];
    let len = told(llistxattr(path, &mut list))?;
    let mut names: Vec<String> = list[..len]
        .split(|&byte| byte == 0)
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| !name.is_empty() && !name.starts_with("user.s3."))
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn value(path: &Path, name: &str, room: usize) -> Result<Vec<u8>, i32> {
    let mut value = vec![0; room];
    let len = told(lgetxattr(path, name, &mut value))?;
    value.truncate(len.min(room));
    Ok(value)
}

#[test]
fn every_call_ends_as_on_ext4() {
    let longest = format!("user.{}", "x".repeat(250));
    let too_long = format!("user.{}", "x".repeat(251));
    run_all(move |test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.agree("making them", ROOT, |dir| {
            shell(
                dir,
                "touch f mine; mkdir d sticky; mkfifo p; ln -s f l; ln -s none x; mknod c c 1 3; chmod 1777 sticky",
            );
            chmod(&dir.join("f"), 0o666).unwrap();
            std::os::unix::fs::chown(dir.join("mine"), Some(OWNER.uid), None).unwrap();
            chmod(&dir.join("mine"), 0o600).unwrap();
        });
        let names = [
            "user.a",
            "user.",
            "user",
            "trusted.a",
            "security.a",
            "system.a",
            "other.a",
            "a",
            "",
            "trusted.",
            "security.",
            &longest,
            &too_long,
            "user.A b\u{e9}",
            "system.posix_acl_access",
            "security.capability",
        ];
        for path in ["f", "mine", "d", "sticky", "p", "l", "x", "c", "absent"] {
            for actor in [ROOT, OWNER, OTHER] {
                for name in names {
                    for flags in [XattrFlags::empty(), XattrFlags::REPLACE, XattrFlags::CREATE] {
                        let act = |dir: &Path| {
                            let path = dir.join(path);
                            (
                                told(lsetxattr(&path, name, b"value", flags)),
                                value(&path, name, 64),
                                value(&path, name, 4),
                                self::names(&path),
                            )
                        };
                        pair.agree((path, name, flags), actor, act);
                    }
                    pair.agree((path, name, "removed"), actor, |dir| {
                        let path = dir.join(path);
                        (told(lremovexattr(&path, name)), told(lremovexattr(&path, name)), self::names(&path))
                    });
                }
            }
        }
    });
}

#[test]
fn a_thousand_names_and_the_longest_value_fit() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, b"").unwrap();
        for index in 0..1_000 {
            setxattr(&path, format!("user.{index:04}"), &[index as u8; 40], XattrFlags::CREATE).unwrap();
        }
        let longest = vec![9; 65_536];
        setxattr(&path, "user.longest", &longest, XattrFlags::empty()).unwrap();
        assert_eq!(names(&path).unwrap().len(), 1_001);
        assert_eq!(value(&path, "user.longest", 65_536), Ok(longest.clone()));
        assert_eq!(value(&path, "user.0777", 64), Ok(vec![777_u32 as u8; 40]));
        let set = |name: &str, len: usize| told(setxattr(&path, name, &vec![1; len], XattrFlags::empty()));
        assert_eq!(set("user.longer", 65_537), Err(libc::E2BIG));
        let full = (0..9).map(|index| set(&format!("user.more{index}"), 65_536)).find(Result::is_err);
        assert_eq!(full, Some(Err(libc::ENOSPC)));
        for index in 0..1_000 {
            removexattr(&path, format!("user.{index:04}")).unwrap();
        }
        assert_eq!(told(listxattr(&path, &mut [0_u8; 3])), Err(libc::ERANGE));
    });
}

#[test]
fn trusted_names_are_shown_to_root_only() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.agree("making it", ROOT, |dir| {
            std::fs::write(dir.join("f"), b"").unwrap();
            told(setxattr(dir.join("f"), "trusted.a", b"x", XattrFlags::empty()))
        });
        for actor in [ROOT, MEMBER] {
            pair.agree("reading it", actor, |dir| (names(&dir.join("f")), value(&dir.join("f"), "trusted.a", 9)));
        }
    });
}

fn head(test: &TestStore, key: &str) -> objstore::store::ObjectInfo {
    test.store().head_object(test.bucket(), &key.parse().unwrap(), None).unwrap()
}

#[test]
fn what_s3_keeps_with_an_object_is_seen_and_set() {
    run_all(|test| {
        test.put("f", b"content");
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let first = head(test, "f");
        let get =
            |name: &str| value(&path, &format!("user.s3.{name}"), 4096).map(|value| String::from_utf8(value).unwrap());
        let set = |name: &str, value: &str| {
            told(setxattr(&path, format!("user.s3.{name}"), value.as_bytes(), XattrFlags::empty()))
        };
        assert_eq!(get("etag"), Ok(first.etag.clone()));
        assert_eq!(get("version-id"), Err(libc::ENODATA));
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("cache-control", "no-store"),
            ("content-disposition", "inline"),
            ("content-encoding", "gzip"),
            ("content-language", "de"),
            ("expires", "Thu, 01 Dec 2033 16:00:00 GMT"),
            ("meta.author", "a person"),
            ("tag.Project", "a b/c"),
        ] {
            assert_eq!((get(name), set(name, value), get(name)), (Err(libc::ENODATA), Ok(()), Ok(value.to_owned())));
        }
        let told_by_s3 = head(test, "f");
        assert_eq!(
            told_by_s3.headers,
            Headers {
                content_type: Some("text/html; charset=utf-8".into()),
                cache_control: Some("no-store".into()),
                content_disposition: Some("inline".into()),
                content_encoding: Some("gzip".into()),
                content_language: Some("de".into()),
                expires: Some("Thu, 01 Dec 2033 16:00:00 GMT".into()),
                storage_class: None,
                website_redirect: None,
            }
        );
        assert_eq!(
            (told_by_s3.metadata["author"].as_str(), told_by_s3.tags["Project"].as_str()),
            ("a person", "a b/c")
        );
        assert_eq!((told_by_s3.etag, told_by_s3.modified), (first.etag, first.modified));
        for (name, value, errno) in [
            ("etag", "x", libc::EPERM),
            ("version-id", "x", libc::EPERM),
            ("checksum.crc32", "x", libc::EPERM),
            ("odd", "x", libc::EPERM),
            ("content-type", "", libc::EINVAL),
            ("content-type", "a\nb", libc::EINVAL),
            ("content-encoding", "aws-chunked", libc::EINVAL),
            ("meta.Author", "x", libc::EINVAL),
            ("meta.a", "\u{e9}", libc::EINVAL),
            ("tag.aws:a", "x", libc::EINVAL),
            ("tag.a", "*", libc::EINVAL),
        ] {
            assert_eq!(set(name, value), Err(errno), "{name} = {value:?}");
        }
        assert_eq!(set("meta.long", &"x".repeat(2_048)), Err(libc::ENOSPC));
        for index in 0..9 {
            set(&format!("tag.{index}"), "").unwrap();
        }
        assert_eq!(set("tag.eleventh", ""), Err(libc::ENOSPC));
        assert_eq!(told(removexattr(&path, "user.s3.cache-control")), Ok(()));
        assert_eq!(told(removexattr(&path, "user.s3.cache-control")), Err(libc::ENODATA));
        assert_eq!(head(test, "f").headers.cache_control, None);
        let mut list = vec![0; 65_536];
        let len = listxattr(&path, &mut list).unwrap();
        let listed = String::from_utf8(list[..len].to_vec()).unwrap();
        for name in ["content-type", "meta.author", "tag.Project", "tag.8"] {
            assert!(listed.contains(&format!("user.s3.{name}\0")), "{name} in {listed:?}");
        }
        assert!(!listed.contains("etag"), "a listed attribute that cannot be set would break cp and rsync");
    });
}

#[test]
fn who_may_not_write_a_file_sets_nothing_of_its_object() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, b"").unwrap();
        chmod(&path, 0o644).unwrap();
        let set = || told(setxattr(&path, "user.s3.tag.a", b"b", XattrFlags::empty()));
        assert_eq!(acting(OTHER, 0, set), Err(libc::EACCES));
        assert!(acting(OTHER, 0, || getxattr(&path, "user.s3.etag", &mut [0_u8; 64]).is_ok()));
        assert_eq!(set(), Ok(()));
    });
}

#[test]
fn attributes_travel_with_the_tools_people_use() {
    run_all(|test| {
        let mount = test.mount("m");
        let say = |line: &str| shell(mount.path(), line);
        assert_eq!(say("echo x > a; setfattr -n user.note -v hello a; setfattr -n user.s3.meta.k -v v a"), "Some(0) ");
        assert_eq!(say("cp -a a b; mv b c; getfattr --only-values -n user.note c"), "Some(0) hello");
        assert_eq!(say("cp --preserve=xattr a e; tar --xattrs -cf t a; mkdir f; tar --xattrs -xf t -C f"), "Some(0) ");
        assert_eq!(head(test, "c").metadata["k"], "v");
        assert_eq!(say("mkdir d && tar --xattrs -xf t -C d; getfattr --only-values -n user.note d/a"), "Some(0) hello");
    });
}
