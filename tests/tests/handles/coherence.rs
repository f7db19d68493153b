//! Coherence: a change through one handle is visible through the other at once, without waiting or retrying.

use std::io::{ErrorKind, Write};

use super::both::Both;
use crate::support::load::Content;
use crate::support::*;

const ROUNDS: usize = 1_000;

here_and_elsewhere! {
    fn a_put_over_a_cached_file_shows_at_once() {
        need!(root_and_fuse());
        let mut rng = Rng::new("handles::coherence");
        let both = Both::new(None);
        let path = both.path("dir/key");
        // In the first round, the kernel knows that the file is absent.
        assert!(!path.exists());
        for round in 0..ROUNDS {
            match round % 3 {
                0 => drop(path.symlink_metadata()),
                1 => drop(std::fs::read(&path)),
                _ => drop(std::fs::read_dir(both.root()).map(Iterator::count)),
            }
            let content = content(&mut rng);
            both.put("dir/key", content.clone(), None).expect("the object is put");
            if round % 2 == 0 {
                assert_eq!(path.metadata().expect("there").len(), content.len() as u64, "round {round}");
            }
            assert!(std::fs::read(&path).expect("there") == content, "round {round}");
        }
    }
}

here_and_elsewhere! {
    fn a_deleted_object_is_gone_from_the_mount_at_once() {
        need!(root_and_fuse());
        let both = Both::new(None);
        let path = both.path("a/b/key");
        for round in 0..ROUNDS {
            both.put("a/b/key", vec![1; 1 + round], None).expect("the object is put");
            assert_eq!(path.metadata().expect("there").len(), 1 + round as u64, "round {round}");
            both.delete("a/b/key").expect("the object is deleted");
            assert_eq!(path.metadata().expect_err("gone").kind(), ErrorKind::NotFound, "round {round}");
            // S3 removes the directories of its last key.
            assert!(!both.path("a").exists(), "round {round}");
        }
    }
}

here_and_elsewhere! {
    fn a_closed_file_is_an_exact_object_at_once() {
        need!(root_and_fuse());
        let mut rng = Rng::new("handles::coherence");
        let both = Both::new(None);
        let path = both.path("key");
        let mut last = String::new();
        for round in 0..ROUNDS {
            let content = content(&mut rng);
            let mut file = std::fs::File::create(&path).expect("a file");
            // In pieces, so that the size grows as with an editor or a compiler.
            content.chunks(7_000).for_each(|piece| file.write_all(piece).expect("written"));
            drop(file);
            let head = both.head("key").expect("an object");
            let tag = head.e_tag.clone().expect("an entity tag");
            assert_eq!(head.content_length(), i64::try_from(content.len()).ok(), "round {round}");
            assert_ne!(tag, last, "the content changed, round {round}");
            let (seen, seen_tag) = both.get("key").expect("an object");
            assert!(seen == content, "round {round}");
            assert_eq!(seen_tag.as_deref(), Some(tag.as_str()), "round {round}");
            let listed = both.list("", None, "", 10);
            let object = listed.contents().first().expect("listed");
            assert_eq!((object.size(), object.e_tag()), (head.content_length(), Some(tag.as_str())), "round {round}");
            last = tag;
        }
    }
}

fn content(rng: &mut Rng) -> Vec<u8> {
    let longest = if rng.chance(5) { 200_000 } else { 20_000 };
    let len = 1 + rng.below(longest);
    Content { len, seed: rng.roll() }.bytes()
}
