//! The callers of the access tests, and a server that knows them.

use std::time::Duration;

use crate::signatures::{Answer, Request, Signer, Wire};
use crate::support::*;

/// The bucket that rights are granted on. It belongs to the account `owner`.
pub const BUCKET: &str = "vessel";
/// A bucket of the account `foreign`.
pub const FOREIGN_BUCKET: &str = "foreign-bucket";
/// Snapshots of both buckets.
pub const SNAPSHOT: &str = "vessel-frozen";
pub const FOREIGN_SNAPSHOT: &str = "foreign-frozen";

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The root account.
    Root,
    /// The account that the bucket belongs to.
    Owner,
    /// An account with the grant `owner`.
    Keeper,
    /// An account with the grant `rw`.
    Both,
    /// An account with the grant `ro`.
    Reader,
    /// An account with the grant `wo`.
    Writer,
    /// An account with its own bucket, and without rights on this one.
    Foreign,
    /// An account whose grant `rw` was revoked.
    Ungranted,
    /// A deleted key of an account with the grant `rw`.
    Deleted,
    /// A key of an account with the grant `rw` that was rotated out.
    Rotated,
    /// A deleted account that had the grant `rw`.
    Gone,
    /// The key id of `Both` with another secret.
    Mistaken,
    /// An expired presigned URL of the owner.
    Expired,
    /// A signature of the owner that is twenty minutes old.
    Late,
    /// A request without a signature.
    Anonymous,
}

pub const EVERYBODY: [Who; 15] = [
    Who::Root,
    Who::Owner,
    Who::Keeper,
    Who::Both,
    Who::Reader,
    Who::Writer,
    Who::Foreign,
    Who::Ungranted,
    Who::Deleted,
    Who::Rotated,
    Who::Gone,
    Who::Mistaken,
    Who::Expired,
    Who::Late,
    Who::Anonymous,
];

impl Who {
    /// The status and error code of a refusal.
    pub fn refusal(self) -> (u16, &'static str) {
        match self {
            Self::Deleted | Self::Rotated | Self::Gone => (403, "InvalidAccessKeyId"),
            Self::Mistaken => (403, "SignatureDoesNotMatch"),
            Self::Late => (403, "RequestTimeTooSkewed"),
            _ => (403, "AccessDenied"),
        }
    }
}

/// A server, and the keys of all callers.
pub struct World {
    pub server: Server,
    keys: Vec<(Who, Credentials)>,
}

impl World {
    pub fn new() -> Self {
        let server = Server::start();
        let mut world = Self { keys: vec![(Who::Root, server.credentials())], server };
        for (who, name, flags) in [
            (Who::Owner, "owner", &["--may-create-buckets"][..]),
            (Who::Foreign, "foreign", &["--may-create-buckets"]),
            (Who::Keeper, "keeper", &[]),
            (Who::Both, "both", &[]),
            (Who::Reader, "reader", &[]),
            (Who::Writer, "writer", &[]),
            (Who::Ungranted, "ungranted", &[]),
            (Who::Deleted, "deleted", &[]),
            (Who::Rotated, "rotated", &[]),
            (Who::Gone, "gone", &[]),
        ] {
            world.admin(&[&["account", "create", name], flags].concat());
            let key = cli::key_of(&cli::json(&world.server, &["key", "create", "--account", name]));
            world.keys.push((who, key));
        }
        let both = world.key(Who::Both);
        let mistaken = Credentials { secret_access_key: "x".repeat(40), ..both };
        world.keys.push((Who::Mistaken, mistaken));
        world.make_buckets();
        world.take_back();
        world
    }

    fn make_buckets(&self) {
        let locked = Request::new("PUT", format!("/{BUCKET}")).header("x-amz-bucket-object-lock-enabled", "true");
        self.must(Who::Owner, &locked);
        self.must(Who::Foreign, &Request::new("PUT", format!("/{FOREIGN_BUCKET}")));
        for (bucket, key) in [(BUCKET, "k"), (BUCKET, "held"), (BUCKET, "other"), (FOREIGN_BUCKET, "secret")] {
            self.must(Who::Root, &Request::new("PUT", format!("/{bucket}/{key}")).body(format!("content of {key}")));
        }
        self.grant(BUCKET);
        for name in ["ungranted", "deleted", "rotated", "gone"] {
            self.admin(&["grant", "add", BUCKET, "--account", name, "--mode", "rw"]);
        }
        self.admin(&["snapshot", "create", BUCKET, SNAPSHOT]);
        self.admin(&["snapshot", "create", FOREIGN_BUCKET, FOREIGN_SNAPSHOT]);
    }

    /// Makes the grants of all callers.
    pub fn grant(&self, bucket: &str) {
        for (name, mode) in [("keeper", "owner"), ("both", "rw"), ("reader", "ro"), ("writer", "wo")] {
            self.admin(&["grant", "add", bucket, "--account", name, "--mode", mode]);
        }
    }

    fn take_back(&self) {
        for who in [Who::Ungranted, Who::Deleted, Who::Rotated, Who::Gone] {
            self.must(who, &Request::new("GET", format!("/{BUCKET}/k")));
        }
        self.admin(&["grant", "remove", BUCKET, "--account", "ungranted"]);
        self.admin(&["key", "delete", &self.key(Who::Deleted).access_key_id]);
        self.admin(&["key", "rotate", "--account", "rotated"]);
        self.admin(&["key", "rotate", "--account", "rotated"]);
        self.admin(&["account", "delete", "gone"]);
    }

    pub fn admin(&self, args: &[&str]) {
        cli::json(&self.server, args);
    }

    pub fn key(&self, who: Who) -> Credentials {
        let known = self.keys.iter().find(|(known, _)| *known == who);
        known.unwrap_or_else(|| panic!("{who:?} has no key")).1.clone()
    }

    pub fn signer(&self, who: Who) -> Signer {
        Signer { key: self.key(who), ..Signer::new(&self.server) }
    }

    /// The request as the caller sends it.
    pub fn wire(&self, who: Who, request: &Request) -> Wire {
        match who {
            Who::Anonymous => self.signer(Who::Root).unsigned(request),
            Who::Late => self.signer(Who::Owner).earlier(Duration::from_secs(20 * 60)).sign(request),
            Who::Expired => {
                let earlier = self.signer(Who::Owner).earlier(Duration::from_secs(7200));
                earlier.presign(request, Duration::from_secs(60))
            }
            who => self.signer(who).sign(request),
        }
    }

    pub fn send(&self, who: Who, request: &Request) -> Answer {
        self.wire(who, request).send(&self.signer(Who::Root).host)
    }

    /// Makes a request that must succeed.
    #[track_caller]
    pub fn must(&self, who: Who, request: &Request) -> Answer {
        let answer = self.send(who, request);
        assert!(answer.status < 300, "{who:?} {} {}?{}: {answer}", request.method, request.path, request.query);
        answer
    }
}

/// The text between these two strings of an answer.
pub fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let found = text.split_once(from).and_then(|(_, rest)| rest.split_once(to));
    found.unwrap_or_else(|| panic!("no {from}…{to} in {text}")).0
}
