//! `Debug` of messages with secrets; it shows everything except them.
//!
//! - `build.rs` generates the impls from the descriptors, one per message with a secret field.

use std::fmt;

/// The text in place of a secret in `Debug` output, whether the secret is set or not.
struct Redacted;

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

include!(concat!(env!("OUT_DIR"), "/debug.rs"));

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Debug;

    use crate::{amphora::admin, cosi, csi};

    const SECRET: &str = "s3cr3t-value";

    fn secrets() -> HashMap<String, String> {
        HashMap::from([("key".to_owned(), SECRET.to_owned())])
    }

    #[track_caller]
    fn assert_redacted(message: &dyn Debug, shown: &str) {
        for text in [format!("{message:?}"), format!("{message:#?}")] {
            assert!(!text.contains(SECRET), "a secret shows: {text}");
            assert!(text.contains("<redacted>"), "the secret's field is missing: {text}");
            assert!(text.contains(shown), "{shown:?} is missing: {text}");
        }
    }

    #[test]
    fn fields_marked_csi_secret_stay_hidden() {
        let stage =
            csi::v1::NodeStageVolumeRequest { volume_id: "v1".into(), secrets: secrets(), ..Default::default() };
        assert_redacted(&stage, "v1");
        let create = csi::v1::CreateVolumeRequest { name: "pvc".into(), secrets: secrets(), ..Default::default() };
        assert_redacted(&create, "pvc");
        // A field can have two such options.
        let expand =
            csi::v1::NodeExpandVolumeRequest { volume_id: "v1".into(), secrets: secrets(), ..Default::default() };
        assert_redacted(&expand, "v1");
    }

    #[test]
    fn publish_contexts_stay_hidden() {
        let published = csi::v1::ControllerPublishVolumeResponse { publish_context: secrets() };
        assert_redacted(&published, "publish_context");
        let (volume_id, publish_context) = ("v1".to_owned(), secrets());
        let stage = csi::v1::NodeStageVolumeRequest { volume_id, publish_context, ..Default::default() };
        assert_redacted(&stage, "v1");
        let (volume_id, publish_context) = ("v1".to_owned(), secrets());
        let publish = csi::v1::NodePublishVolumeRequest { volume_id, publish_context, ..Default::default() };
        assert_redacted(&publish, "v1");
    }

    #[test]
    fn mount_flags_stay_hidden_inside_other_messages() {
        use csi::v1::volume_capability::{AccessType, MountVolume};
        let mount = MountVolume { fs_type: "fuse".into(), mount_flags: vec![SECRET.into()], ..Default::default() };
        let capability = csi::v1::VolumeCapability { access_type: Some(AccessType::Mount(mount)), access_mode: None };
        let publish = csi::v1::NodePublishVolumeRequest { volume_capability: Some(capability), ..Default::default() };
        assert_redacted(&publish, "fuse");
    }

    #[test]
    fn cosi_credentials_stay_hidden() {
        let details = cosi::v1alpha1::CredentialDetails { secrets: secrets() };
        let grant = cosi::v1alpha1::DriverGrantBucketAccessResponse {
            account_id: "a1".into(),
            credentials: HashMap::from([("s3".to_owned(), details)]),
        };
        assert_redacted(&grant, "a1");

        let s3 = cosi::v1alpha2::S3CredentialInfo { access_key_id: "AK1".into(), access_secret_key: SECRET.into() };
        let credentials = cosi::v1alpha2::CredentialInfo { s3: Some(s3), ..Default::default() };
        let grant =
            cosi::v1alpha2::DriverGrantBucketAccessResponse { credentials: Some(credentials), ..Default::default() };
        assert_redacted(&grant, "AK1");
    }

    #[test]
    fn fields_marked_debug_redact_stay_hidden() {
        let key =
            admin::v1::Key { access_key_id: "AK1".into(), secret_access_key: SECRET.into(), ..Default::default() };
        assert_redacted(&key, "AK1");
        let mount =
            admin::v1::MountRequest { dir: "/mnt/b".into(), secret_access_key: SECRET.into(), ..Default::default() };
        assert_redacted(&mount, "/mnt/b");
    }
}
