//! Every gRPC method by its path: its interface, whether it changes anything, and the resources that a message names.
//!
//! - Everything comes from the descriptors, so a new method is included automatically. It counts as a change unless
//!   [`READS`] lists it.
//! - A subject consists of the scalar fields of a message. Fields marked as secrets, maps and nested messages are
//!   omitted: mount flags, parameters and Secrets of Kubernetes are among those.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor, MethodDescriptor, Value};

/// The methods that change nothing; all others count as changes.
const READS: &[&str] = &[
    "/amphora.admin.v1.Admin/ListBuckets",
    "/amphora.admin.v1.Admin/GetBucket",
    "/amphora.admin.v1.Admin/ListHiddenKeys",
    "/amphora.admin.v1.Admin/ListAccounts",
    "/amphora.admin.v1.Admin/ListKeys",
    "/amphora.admin.v1.Admin/ListGrants",
    "/amphora.admin.v1.Admin/ListRoles",
    "/amphora.admin.v1.Admin/ListSnapshots",
    "/amphora.admin.v1.Admin/ListVolumes",
    "/amphora.admin.v1.Admin/GetVolume",
    "/amphora.admin.v1.Admin/ListSessions",
    "/amphora.admin.v1.Mounts/MountStats",
    "/amphora.admin.v1.Mounts/WatchMount",
    "/amphora.admin.v1.Mounts/GetNodeStatus",
    "/amphora.admin.v1.Admin/Status",
    "/csi.v1.Identity/GetPluginInfo",
    "/csi.v1.Identity/GetPluginCapabilities",
    "/csi.v1.Identity/Probe",
    "/csi.v1.Controller/ValidateVolumeCapabilities",
    "/csi.v1.Controller/ListVolumes",
    "/csi.v1.Controller/GetCapacity",
    "/csi.v1.Controller/ControllerGetCapabilities",
    "/csi.v1.Controller/ListSnapshots",
    "/csi.v1.Controller/GetSnapshot",
    "/csi.v1.Controller/ControllerGetVolume",
    "/csi.v1.GroupController/GroupControllerGetCapabilities",
    "/csi.v1.GroupController/GetVolumeGroupSnapshot",
    "/csi.v1.SnapshotMetadata/GetMetadataAllocated",
    "/csi.v1.SnapshotMetadata/GetMetadataDelta",
    "/csi.v1.Node/NodeGetVolumeStats",
    "/csi.v1.Node/NodeGetCapabilities",
    "/csi.v1.Node/NodeGetInfo",
    "/cosi.v1alpha1.Identity/DriverGetInfo",
    "/sigs.k8s.io.cosi.v1alpha2.Identity/DriverGetInfo",
    "/sigs.k8s.io.cosi.v1alpha2.Provisioner/DriverGetExistingBucket",
];

/// The full names of fields that hold secrets, as `build.rs` found them.
const SECRET_FIELDS: &[&str] = include!(concat!(env!("OUT_DIR"), "/secret_fields.rs"));

/// The field of access key ids. A secret may have been entered there by mistake, so only what looks like an id is
/// shown.
const KEY_ID_FIELD: &str = "access_key_id";

/// The largest number of characters shown of one value.
const VALUE_CHARS_MAX: usize = 256;

/// Which interface a method belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interface {
    /// The admin interface, used by the command line.
    Admin,
    /// The Container Storage Interface.
    Csi,
    /// The Container Object Storage Interface.
    Cosi,
}

impl Interface {
    /// The interface's name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Csi => "csi",
            Self::Cosi => "cosi",
        }
    }

    fn of_package(package: &str) -> Option<Self> {
        match package {
            "amphora.admin.v1" => Some(Self::Admin),
            "csi.v1" => Some(Self::Csi),
            "cosi.v1alpha1" | "sigs.k8s.io.cosi.v1alpha2" => Some(Self::Cosi),
            _ => None,
        }
    }
}

/// A gRPC method.
#[derive(Debug)]
pub struct Call {
    path: String,
    interface: Interface,
    method: MethodDescriptor,
}

static CALLS: LazyLock<BTreeMap<String, Call>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(crate::FILE_DESCRIPTOR_SET).unwrap_or_default();
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let calls = methods.filter_map(|method| {
        let interface = Interface::of_package(method.parent_service().package_name())?;
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        Some((path.clone(), Call { path, interface, method }))
    });
    calls.collect()
});

/// The method with this request path.
pub fn find(path: &str) -> Option<&'static Call> {
    CALLS.get(path)
}

/// Every method of every interface, by path.
pub fn all() -> impl Iterator<Item = &'static Call> {
    CALLS.values()
}

impl Call {
    /// The path of the method's requests, `/package.Service/Method`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The interface that the method belongs to.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// The method's name, for example `CreateVolume`.
    pub fn name(&self) -> &str {
        self.method.name()
    }

    /// Whether the method may change anything.
    pub fn changes(&self) -> bool {
        !READS.contains(&self.path.as_str())
    }

    /// Whether the answer is a stream of messages.
    pub fn streams(&self) -> bool {
        self.method.is_server_streaming()
    }

    /// The resources that a request names, as `field=value` separated by spaces; empty if the bytes are not a request
    /// of this method.
    pub fn subject(&self, request: &[u8]) -> String {
        fields(self.method.input(), request, |_| true)
    }

    /// The ids in an answer, of what the call created.
    pub fn result(&self, answer: &[u8]) -> String {
        fields(self.method.output(), answer, |field| field.name().ends_with("id"))
    }
}

fn fields(message: MessageDescriptor, bytes: &[u8], wanted: impl Fn(&FieldDescriptor) -> bool) -> String {
    let Ok(message) = DynamicMessage::decode(message, bytes) else { return String::new() };
    let mut text = String::new();
    for (field, value) in message.fields().filter(|(field, _)| !is_secret(field) && wanted(field)) {
        if let Some(value) = shown(&field, value) {
            let space = if text.is_empty() { "" } else { " " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{space}{}={value}", field.name());
        }
    }
    text
}

fn is_secret(field: &FieldDescriptor) -> bool {
    SECRET_FIELDS.contains(&field.full_name())
}

fn shown(field: &FieldDescriptor, value: &Value) -> Option<String> {
    match value {
        Value::String(id) if field.name() == KEY_ID_FIELD && !looks_like_key_id(id) => Some("(withheld)".into()),
        Value::String(text) => Some(bounded(text)),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::I32(number) => Some(number.to_string()),
        Value::I64(number) => Some(number.to_string()),
        Value::U32(number) => Some(number.to_string()),
        Value::U64(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A value, in quotes if its end would not be clear otherwise.
fn bounded(text: &str) -> String {
    let cut: String = text.chars().take(VALUE_CHARS_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    let plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '=' | '\\');
    if !cut.is_empty() && cut.chars().all(plain) { format!("{cut}{more}") } else { format!("{cut:?}{more}") }
}

/// Whether a value looks like an access key id: 20 capital letters and digits, as the store makes them. A root key's id
/// may have another form, but no secret has this one.
fn looks_like_key_id(text: &str) -> bool {
    text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use prost::Message as _;

    use super::*;
    use crate::{amphora::admin, cosi, csi};

    #[test]
    fn each_method_of_the_protos_is_known_and_is_a_change_unless_its_name_says_that_it_reads() {
        let reads = ["Get", "List", "Probe", "Validate", "NodeGet", "ControllerGet", "GroupControllerGet", "DriverGet"];
        let others = ["Status", "MountStats", "WatchMount"];
        let known: Vec<_> = all().collect();
        assert!(known.iter().filter(|call| call.interface() == Interface::Admin).count() >= 30, "{known:?}");
        assert!(known.len() > 60, "{}", known.len());
        for call in known {
            let name = call.name();
            let reading = reads.iter().any(|verb| name.starts_with(verb)) || others.contains(&name);
            assert_eq!(call.changes(), !reading, "{}: list it in READS if and only if it reads", call.path());
        }
    }

    #[test]
    fn reads_are_methods_that_exist() {
        for path in READS {
            assert!(find(path).is_some(), "{path}");
        }
    }

    fn subject(path: &str, request: &impl prost::Message) -> String {
        find(path).expect(path).subject(&request.encode_to_vec())
    }

    #[test]
    fn a_subject_names_what_the_request_is_about() {
        let delete = admin::v1::DeleteBucketRequest { name: "photos".into(), force: true };
        assert_eq!(subject("/amphora.admin.v1.Admin/DeleteBucket", &delete), "name=photos force=true");
        let restore = admin::v1::MountRequest { dir: "/mnt/a b\n".into(), ..Default::default() };
        assert_eq!(subject("/amphora.admin.v1.Mounts/Mount", &restore), r#"dir="/mnt/a b\n""#);
        let revoke = cosi::v1alpha1::DriverRevokeBucketAccessRequest {
            bucket_id: "b".into(),
            account_id: "cosi-ba-1".into(),
            ..Default::default()
        };
        let path = "/cosi.v1alpha1.Provisioner/DriverRevokeBucketAccess";
        assert_eq!(subject(path, &revoke), "bucket_id=b account_id=cosi-ba-1");
        assert_eq!(find(path).unwrap().subject(b"\xff\xff"), "");
        let long = admin::v1::GetBucketRequest { name: "x".repeat(100_000) };
        assert!(subject("/amphora.admin.v1.Admin/GetBucket", &long).len() < 300);
    }

    #[test]
    fn a_subject_never_shows_a_secret() {
        const SECRET: &str = "s3cr3t/value+typed";
        let map = || HashMap::from([("key".to_owned(), SECRET.to_owned())]);
        let stage = csi::v1::NodeStageVolumeRequest {
            volume_id: "v".into(),
            secrets: map(),
            volume_context: map(),
            publish_context: map(),
            ..Default::default()
        };
        let mount = admin::v1::MountRequest {
            bucket: "b".into(),
            access_key_id: SECRET.into(),
            secret_access_key: SECRET.into(),
            ..Default::default()
        };
        let key = admin::v1::DeleteKeyRequest { access_key_id: SECRET.into() };
        let made = admin::v1::Key {
            access_key_id: "AMPH0123456789ABCDEF".into(),
            secret_access_key: SECRET.into(),
            account: "alice".into(),
            ..Default::default()
        };
        let shown = [
            subject("/csi.v1.Node/NodeStageVolume", &stage),
            subject("/amphora.admin.v1.Mounts/Mount", &mount),
            subject("/amphora.admin.v1.Admin/DeleteKey", &key),
            find("/amphora.admin.v1.Admin/CreateKey").unwrap().result(&made.encode_to_vec()),
        ];
        let expected = [
            "volume_id=v",
            "bucket=b access_key_id=(withheld)",
            "access_key_id=(withheld)",
            "access_key_id=AMPH0123456789ABCDEF",
        ];
        assert_eq!(shown, expected);
    }
}
