//! Where the mounts of a test are: on the machine of its server, or on another one.

use std::cell::Cell;

thread_local! {
    static ELSEWHERE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test whose servers are mounted from other network namespaces.
pub fn elsewhere(test: fn()) {
    ELSEWHERE.set(true);
    let _here_again = HereAgain;
    test();
}

/// Ends the effect of [`elsewhere`], also if its test panics: the next test may run in this thread.
struct HereAgain;

impl Drop for HereAgain {
    fn drop(&mut self) {
        ELSEWHERE.set(false);
    }
}

/// Whether servers that this thread starts are mounted from other network namespaces.
pub(crate) fn is_elsewhere() -> bool {
    ELSEWHERE.get()
}

/// Tests that run twice: with mounts of the server, and with mounts of nodes in other network namespaces.
#[macro_export]
macro_rules! here_and_elsewhere {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)+) => {$(
        $(#[$meta])*
        #[test]
        fn $name() $body

        mod $name {
            #[test]
            fn from_another_machine() {
                $crate::place::elsewhere(super::$name);
            }
        }
    )+};
}
