//! Both handles at once: S3 and a mount, compared with one reference model.

mod attributes;
mod both;
mod coherence;
mod compare;
mod files;
mod hidden;
mod model;
mod objects;
mod stale_reads;
mod step;

use std::collections::VecDeque;
use std::time::Duration;

use both::Both;
use model::{Model, Tag};
use step::{Refusal, Step};

use crate::support::load::Content;
use crate::support::*;

/// The number of steps of each of the two runs.
const STEPS: usize = 1_000;
/// The number of steps that a failing run shows.
const SHOWN: usize = 12;
/// A quota so low that some steps are refused.
const QUOTA: u64 = 150_000;

here_and_elsewhere! {
    fn s3_and_a_mount_agree_after_every_step() {
        need!(root_and_fuse());
        drive(None, "handles::s3_and_a_mount_agree_after_every_step");
    }
}

here_and_elsewhere! {
    fn s3_and_a_mount_agree_at_the_quota() {
        need!(root_and_fuse());
        drive(Some(QUOTA), "handles::s3_and_a_mount_agree_at_the_quota");
    }
}

here_and_elsewhere! {
    fn a_replaced_object_frees_its_quota_even_if_it_is_open() {
        need!(root_and_fuse());
        let mut both = Both::new(Some(QUOTA));
        let put = |both: &Both, seed| both.put("key", Content { len: 100_000, seed }.bytes(), None).map(drop);
        put(&both, 1).expect("there is room");
        let open = std::fs::File::open(both.path("key")).expect("the object is a file");
        put(&both, 2).expect("the new content counts in place of the old");
        assert_eq!(both.used_bytes(), 200_000, "an open file counts until it is closed");
        assert_eq!(both.put("other", vec![1], None), Err(Refusal::quota()));
        drop(open);
        let settled = wait_until(Duration::from_secs(10), || (both.used_bytes() == 100_000).then_some(()));
        settled.expect("a closed file without a name counts no more");
        both.put("other", vec![1], None).expect("there is room again");
    }
}

fn drive(quota: Option<u64>, test: &str) {
    let mut rng = Rng::new(test);
    let mut model = Model::new(quota);
    let mut both = Both::new(quota);
    let mut recent_steps = RecentSteps::default();
    let mut refused_for_space = 0;
    for number in 0..STEPS {
        let step = Step::generate(&mut rng, &model);
        recent_steps.add(number, &step);
        let expected = step.apply(&mut model);
        let done = both.apply(&step);
        assert_eq!(done.as_ref().map(drop).map_err(Clone::clone), expected, "step {number}");
        refused_for_space += usize::from(expected.is_err_and(|refusal| refusal.is_quota()));
        if done.is_err()
            && let Some(part) = step.shortened(both.written_before_refusal())
        {
            part.apply(&mut model).expect("what was written fits");
        }
        if let Ok(Some(tag)) = done
            && let Some(id) = step.names().last().and_then(|key| model.file_at(key))
        {
            model.files.get_mut(&id).expect("named").tag = Tag::Known(tag);
        }
        compare::after_step(&mut both, &mut model, &mut rng, &step.names());
        if number % 100 == 99 {
            compare::whole(&mut both, &mut model);
        }
    }
    assert_eq!(refused_for_space > STEPS / 100, quota.is_some(), "{refused_for_space} steps were refused for space");
}

/// The latest steps, printed when the test fails.
#[derive(Default)]
struct RecentSteps(VecDeque<String>);

impl RecentSteps {
    fn add(&mut self, number: usize, step: &Step) {
        if self.0.len() == SHOWN {
            self.0.pop_front();
        }
        self.0.push_back(format!("{number}: {step:?}"));
    }
}

impl Drop for RecentSteps {
    #[expect(clippy::print_stdout, reason = "the test harness shows it when the test fails")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|line| println!("{line}"));
        }
    }
}
