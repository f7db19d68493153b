//! The Helm chart and the plain manifests of `deploy/`: they render for every choice of values, the types of Kubernetes
//! accept each object, and no container is given more than it needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::*;

const LIMIT: Duration = Duration::from_secs(60);
/// The Kubernetes version that the chart is rendered for.
const KUBERNETES: &str = "1.34.0";
/// Where sidecars find the token of the API server.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn chart() -> PathBuf {
    repo().join("deploy/helm/amphora")
}

fn helm(verb: &[&str], values: Option<&Path>) -> Result<Command, String> {
    let mut command = Command::new(required("helm")?);
    command.args(verb).arg(chart()).args(["--kube-version", KUBERNETES, "--namespace", "amphora-system"]);
    if let Some(values) = values {
        command.arg("--values").arg(values);
    }
    Ok(command)
}

/// The choices of values that the tests know: the defaults, and each file in the chart's folder `ci`.
fn choices() -> Vec<Option<PathBuf>> {
    let files = std::fs::read_dir(chart().join("ci")).expect("the chart's ci").map(|file| file.expect("a file").path());
    std::iter::once(None).chain(files.map(Some)).collect()
}

/// The objects in a file of YAML, each strictly decoded into the type of its kind.
fn decoded(yaml: &Path) -> Result<Vec<Value>, String> {
    read_yaml(yaml, &[])
}

fn read_yaml(yaml: &Path, flags: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = Command::new(required("manifests")?);
    command.args(flags).stdin(Stdio::from(std::fs::File::open(yaml).map_err(|error| error.to_string())?));
    let output = command.output().map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{}: {}", yaml.display(), String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// The objects of a choice of values.
fn rendered(values: Option<&Path>) -> Result<Vec<Value>, String> {
    let home = Home::new()?;
    let yaml = home.path().join("objects.yaml");
    let outcome = run(&mut helm(&["template", "amphora"], values)?, LIMIT)?;
    std::fs::write(&yaml, outcome.ok()).expect("written");
    decoded(&yaml)
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The containers of all pods.
fn containers(objects: &[Value]) -> Vec<Value> {
    let of = |object: &Value| object["spec"]["template"]["spec"]["containers"].as_array().cloned();
    objects.iter().filter_map(of).flatten().collect()
}

fn mounts(container: &Value) -> Vec<&Value> {
    container["volumeMounts"].as_array().expect("each has a volume").iter().collect()
}

fn name(object: &Value) -> &str {
    object["name"].as_str().expect("a name")
}

#[test]
fn every_choice_of_values_renders_objects_that_kubernetes_knows() {
    let outcome = need!(helm(&["lint", "--strict"], None).and_then(|mut lint| run(&mut lint, LIMIT)));
    drop(outcome.ok());
    for values in choices() {
        let objects = need!(rendered(values.as_deref()));
        assert_eq!(of_kind(&objects, "StatefulSet").len(), 1, "{values:?}");
        let identity = |object: &Value| {
            let meta = &object["metadata"];
            format!("{} {} {}", object["kind"], meta["namespace"], meta["name"])
        };
        let names: BTreeSet<_> = objects.iter().map(identity).collect();
        assert_eq!(names.len(), objects.len(), "a name occurs twice with {values:?}: {names:?}");
    }
}

#[test]
fn values_that_the_chart_does_not_know_are_refused() {
    for (setting, said) in [
        ("holdr.enabled=false", "holdr"),
        ("store.storage.type=nfs", "store/storage/type"),
        ("node.placement=everywhere", "node/placement"),
        ("kubeletPath=relative", "kubeletPath"),
        ("store.storage.type=hostPath", "store.nodeSelector"),
        ("store.storage.type=emptyDir", "emptyDir loses the store"),
        ("metadata.urlSecret.name=db", "content.url"),
        ("metadata.urlSecret.name=db,metadata.url=postgres://u@h/d,content.url=s3://b", "keep one"),
        ("metadata.urlSecret.name=db,content.url=s3://b,node.placement=store", "node.placement"),
        (
            "metadata.urlSecret.name=db,content.url=s3://b,store.storage.type=hostPath,store.nodeSelector.a=b",
            "hostPath is one",
        ),
        ("metadata.url=mysql://h", "metadata/url"),
        ("metadata.passwordSecret.name=db", "has to name PostgreSQL"),
        ("content.existingSecret=s3", "content.url"),
        ("cosi.enabled=true", "cosi.secretNamespaces"),
        ("volumes.tls.existingSecret=tls", "node.authority.configMap"),
        ("node.server=no-port", "node/server"),
        ("volumes.clientAuthority.configMap=ca", "node.certificate"),
        ("node.certificate.certManager.enabled=true", "dnsNames"),
        ("csi.topology.zone=z1", "node.topologyLabels"),
        ("csi.seLinuxMount=1", "csi/seLinuxMount"),
        ("store.oidc.issuer.configMap=a", "store/oidc/issuer"),
        ("store.oidc.issuers.key=", "store/oidc/issuers/key"),
        ("csi.storageClasses[0].name=a,csi.storageClasses[0].parameters.fromPrefix=models", "fromBucket"),
        ("csi.snapshotMetadata.enabled=true", "csi.snapshotMetadata needs a certificate"),
        ("csi.snapshotMetadata.enabled=true,csi.snapshotter.enabled=false", "csi.snapshotter.enabled"),
        ("node.certificate.volume.emptyDir.sizeLimit=1Mi,node.certificate.existingSecret=s", "several sources"),
    ] {
        let mut command = need!(helm(&["template", "amphora"], None));
        let outcome = run(command.args(["--set", setting]), LIMIT).expect("helm ends");
        assert!(!outcome.status.success() && outcome.stderr.contains(said), "{setting}: {outcome}");
    }
}

/// A container in the server's pod that another project makes gets the folder of its own socket, and the token of the API
/// server only if it needs that.
#[test]
fn no_container_has_more_than_it_needs() {
    for values in choices() {
        let objects = need!(rendered(values.as_deref()));
        for container in containers(&objects) {
            let (name, security) = (name(&container), &container["securityContext"]);
            assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
            let paths: Vec<_> = mounts(&container).iter().filter_map(|mount| mount["mountPath"].as_str()).collect();
            let needs_token = name.starts_with("csi-") || name == "cosi-sidecar";
            assert_eq!(paths.contains(&TOKEN), needs_token, "{name}: {paths:?}");
            let privileged = security["privileged"] == true;
            if privileged {
                let mounts_here = of_kind(&objects, "DaemonSet").iter().all(|set| !is_node(set));
                assert_eq!(name, if mounts_here { "amphora" } else { "amphora-node" }, "one program mounts");
                continue;
            }
            assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]), "{name}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
            let sockets = mounts(&container)
                .iter()
                .filter(|mount| mount["name"].as_str().is_some_and(|name| name.ends_with("socket")))
                .count();
            assert!(
                name.starts_with("amphora") || sockets == 1,
                "{name} has the folders of several sockets: {paths:?}"
            );
        }
        for pod in objects.iter().map(|object| &object["spec"]["template"]["spec"]).filter(|pod| pod.is_object()) {
            assert_eq!(pod["automountServiceAccountToken"], false);
            assert!(pod["hostNetwork"].is_null() && pod["hostIPC"].is_null());
        }
    }
}

fn is_node(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/component"] == "node"
}

/// Only nodes are root: a server whose volumes are mounted elsewhere needs as little as one without volumes.
#[test]
fn a_server_whose_volumes_are_mounted_by_nodes_is_not_root() {
    let objects = need!(rendered(None));
    let store = of_kind(&objects, "StatefulSet")[0];
    let text = store.to_string();
    for word in ["hostPath", "privileged", "hostPID", "registrar"] {
        assert!(!text.contains(word), "the store's pod has {word}");
    }
    let pod = &store["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let sets = of_kind(&objects, "DaemonSet");
    let node = sets.iter().find(|set| is_node(set)).expect("the driver's nodes");
    let account = &node["spec"]["template"]["spec"]["serviceAccountName"];
    let bindings = of_kind(&objects, "ClusterRoleBinding");
    assert!(!bindings.iter().any(|binding| binding["subjects"].to_string().contains(&account.to_string())));
    assert_eq!(node["spec"]["updateStrategy"]["type"], "RollingUpdate");
    let without_holder = need!(rendered(Some(&chart().join("ci/nodes-values.yaml"))));
    let [node] = of_kind(&without_holder, "DaemonSet")[..] else { panic!("one DaemonSet") };
    assert_eq!(node["spec"]["updateStrategy"]["type"], "OnDelete", "its mounts end with its pod");
}

/// A node finds the server at its Service, and no other pod reaches the volume listener.
#[test]
fn the_volume_listener_is_reached_by_nodes_alone() {
    let objects = need!(rendered(Some(&chart().join("ci/all-values.yaml"))));
    let service =
        |name: &str| of_kind(&objects, "Service").into_iter().find(|service| service["metadata"]["name"] == name);
    let port = &service("amphora-volumes").expect("the Service of the listener")["spec"]["ports"][0]["port"];
    let node = containers(&objects).into_iter().find(|container| name(container) == "amphora-node").expect("a node");
    let server = format!("--server=amphora-volumes.amphora-system.svc:{port}");
    assert!(node["args"].as_array().expect("arguments").iter().any(|arg| arg == &server), "{server}: {}", node["args"]);
    let policies = of_kind(&objects, "NetworkPolicy");
    let store =
        policies.iter().find(|policy| policy["metadata"]["name"] == "amphora").expect("the policy of the store");
    let rules = store["spec"]["ingress"].as_array().expect("rules");
    let rule = rules.iter().find(|rule| rule["ports"][0]["port"] == "volumes").expect("a rule for the listener");
    let nodes = &rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"];
    assert!(nodes == "node" && rule["from"].as_array().is_some_and(|from| from.len() == 2), "{rule}");
}

/// A listener that asks for certificates has the authority, and no key of a node; nodes have theirs.
#[test]
fn nodes_show_certificates_of_the_authority_that_the_store_asks_for() {
    for (file, authority) in [("all-values.yaml", "ca.crt"), ("nodes-values.yaml", "nodes.pem")] {
        let objects = need!(rendered(Some(&chart().join("ci").join(file))));
        let argument = |container: &str, argument: String| {
            let all = containers(&objects);
            let container = all.iter().find(|one| name(one) == container).expect("the container");
            let given = container["args"].as_array().expect("arguments");
            assert!(given.iter().any(|arg| *arg == argument), "{file}: {argument}: {given:?}");
        };
        argument("amphora", format!("--volume-client-ca=/etc/amphora/client-authority/{authority}"));
        argument("amphora-node", "--cert=/etc/amphora/node-tls/tls.crt".to_owned());
        argument("amphora-node", "--key=/etc/amphora/node-tls/tls.key".to_owned());
        let store = of_kind(&objects, "StatefulSet")[0].to_string();
        assert!(!store.contains("node-tls"), "{file}: the store has a key of a node");
    }
    let objects = need!(rendered(Some(&chart().join("ci/all-values.yaml"))));
    let certificates = of_kind(&objects, "Certificate");
    let node = certificates.iter().find(|one| one["metadata"]["name"] == "amphora-node").expect("that of nodes");
    assert_eq!(node["spec"]["dnsNames"], serde_json::json!(["node-1", "node-2"]));
    assert_eq!(node["spec"]["usages"], serde_json::json!(["digital signature", "client auth"]));
    let plain = need!(rendered(None));
    assert!(!serde_json::to_string(&plain).expect("JSON").contains("client-ca"), "nothing is asked for by default");
}

#[test]
fn a_store_without_volumes_needs_neither_root_nor_the_node() {
    for file in ["s3-only-values.yaml", "buckets-values.yaml"] {
        let objects = need!(rendered(Some(&chart().join("ci").join(file))));
        let text = serde_json::to_string(&objects).expect("JSON");
        for word in ["hostPath", "privileged", "hostPID", "persistentvolumes"] {
            assert!(!text.contains(word), "{file} has {word}");
        }
        let pod = &of_kind(&objects, "StatefulSet")[0]["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    }
    let objects = need!(rendered(Some(&chart().join("ci/s3-only-values.yaml"))));
    assert!(of_kind(&objects, "ClusterRole").is_empty(), "nothing there speaks to the API server");
}

/// Secrets are the widest right in the chart: only COSI has it, and only where the operator says.
#[test]
fn secrets_are_written_by_cosi_alone_and_where_it_may() {
    let reaches = |objects: &[Value], kind: &str| {
        let rules = of_kind(objects, kind).into_iter().filter_map(|role| role["rules"].as_array().cloned()).flatten();
        rules.filter(|rule| rule["resources"].to_string().contains("\"secrets\"")).count()
    };
    for values in choices() {
        let objects = need!(rendered(values.as_deref()));
        let narrowed = values.as_ref().is_some_and(|file| file.ends_with("all-values.yaml"));
        let cosi = !of_kind(&objects, "BucketClass").is_empty();
        assert_eq!(reaches(&objects, "ClusterRole"), usize::from(cosi && !narrowed), "{values:?}");
        assert_eq!(reaches(&objects, "Role"), if narrowed { 2 } else { 0 }, "{values:?}");
        let roles = serde_json::to_string(&of_kind(&objects, "ClusterRole")).expect("JSON");
        assert!(!roles.contains("\"*\""), "a rule for everything");
    }
}

/// A new version of the chart replaces the pods that serve mounts, and must not replace the holder that keeps its mounts meanwhile.
#[test]
fn a_new_version_leaves_the_holder_alone() {
    let objects = need!(rendered(None));
    let sets = of_kind(&objects, "DaemonSet");
    let [holder, node] = [false, true].map(|wanted| *sets.iter().find(|set| is_node(set) == wanted).expect("two sets"));
    assert_eq!(holder["spec"]["updateStrategy"]["type"], "OnDelete");
    let path = |object: &Value, wanted: &str| {
        let volumes = object["spec"]["template"]["spec"]["volumes"].as_array().expect("volumes");
        volumes.iter().find(|volume| volume["name"] == wanted).map(|volume| volume["hostPath"]["path"].clone())
    };
    assert_eq!(path(holder, "socket"), path(node, "holder-socket"), "the socket is where the node looks for it");
    assert_ne!(path(holder, "socket"), path(node, "state"), "the holder does not see the tickets of the node");
    let objects = need!(rendered(Some(&chart().join("ci/store-values.yaml"))));
    let store = of_kind(&objects, "StatefulSet")[0];
    let [holder] = of_kind(&objects, "DaemonSet")[..] else { panic!("one DaemonSet") };
    assert_eq!(path(holder, "socket"), path(store, "holder-socket"), "the socket is where the server looks for it");
}

#[test]
fn rules_and_dashboard_are_those_of_the_deploy_folder() {
    let objects = need!(rendered(Some(&chart().join("ci/all-values.yaml"))));
    let dashboard = std::fs::read_to_string(repo().join("deploy/monitoring/dashboard.json")).expect("the dashboard");
    let maps = of_kind(&objects, "ConfigMap");
    let shown = maps[0]["data"]["amphora.json"].as_str().expect("a file");
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(parse(shown), parse(&dashboard));
    let rules = need!(read_yaml(&repo().join("deploy/monitoring/alerts.yml"), &["--unchecked"]));
    assert_eq!(of_kind(&objects, "PrometheusRule")[0]["spec"], rules[0]);
}

/// `deploy/kustomize` is for clusters without Helm.
#[test]
fn the_plain_manifests_are_what_the_chart_renders() {
    let file = repo().join("deploy/kustomize/amphora.yaml");
    let objects = need!(decoded(&file));
    assert_eq!(objects, need!(rendered(None)), "run deploy/kustomize/generate.sh");
}

#[test]
fn group_snapshots_are_installed_only_where_they_are_asked_for() {
    for (values, asked) in [(None, false), (Some("ci/all-values.yaml"), true)] {
        let objects = need!(rendered(values.map(|file| chart().join(file)).as_deref()));
        let sidecar = containers(&objects).into_iter().find(|container| name(container) == "csi-snapshotter");
        let gate = Value::from("--feature-gates=CSIVolumeGroupSnapshot=true");
        let args = sidecar.expect("the sidecar")["args"].clone();
        assert_eq!(args.as_array().expect("arguments").contains(&gate), asked, "{args}");
        assert_eq!(of_kind(&objects, "VolumeGroupSnapshotClass").len(), usize::from(asked));
        let roles = of_kind(&objects, "ClusterRole");
        let reached = roles.iter().any(|role| role.to_string().contains("groupsnapshot.storage.k8s.io"));
        assert_eq!(reached, asked, "{values:?}");
    }
}

#[test]
fn backup_programs_reach_ranges_of_snapshots_only_where_they_are_asked_for() {
    for (values, asked) in [(None, false), (Some("ci/all-values.yaml"), true)] {
        let objects = need!(rendered(values.map(|file| chart().join(file)).as_deref()));
        let found = |kind: &str| of_kind(&objects, kind).into_iter().cloned().collect::<Vec<_>>();
        let roles = Value::from(found("ClusterRole")).to_string();
        assert_eq!(roles.contains("tokenreviews"), asked, "{values:?}");
        let services = found("SnapshotMetadataService");
        assert_eq!(services.len(), usize::from(asked));
        let sidecar = containers(&objects).into_iter().find(|one| name(one) == "csi-snapshot-metadata");
        let (Some(service), Some(sidecar)) = (services.first(), sidecar) else {
            assert!(!asked, "{values:?}");
            continue;
        };
        assert_eq!(service["metadata"]["name"], "csi.amphora.dev", "programs find it by the driver's name");
        assert_eq!(service["spec"]["address"], "amphora-snapshot-metadata.amphora-system.svc:6443");
        let certificates = found("Certificate");
        let certificate = certificates.iter().find(|one| one["metadata"]["name"] == "amphora-snapshot-metadata");
        assert_eq!(
            certificate.expect("that of the service")["spec"]["dnsNames"][0],
            "amphora-snapshot-metadata.amphora-system.svc"
        );
        assert!(mounts(&sidecar).iter().any(|mount| mount["mountPath"] == "/etc/amphora/metadata-tls"));
        let ports = found("Service").into_iter().find(|one| one["metadata"]["name"] == "amphora-snapshot-metadata");
        assert_eq!(ports.expect("a Service")["spec"]["ports"][0]["targetPort"], sidecar["ports"][0]["name"]);
    }
}

/// Further issuers do not need one of the cluster.
#[test]
fn further_issuers_are_a_file_of_a_config_map() {
    let values = Home::new().expect("a folder");
    let alone = values.path().join("issuers-values.yaml");
    std::fs::write(&alone, "store: {oidc: {issuers: {configMap: further-issuers, key: all.toml}}}\n").expect("written");
    for (file, argument) in [
        (None, None),
        (Some(alone), Some("all.toml")),
        (Some(chart().join("ci/all-values.yaml")), Some("issuers.toml")),
    ] {
        let objects = need!(rendered(file.as_deref()));
        let all = containers(&objects);
        let server = all.iter().find(|one| name(one) == "amphora").expect("the server");
        let given = server["args"].as_array().expect("arguments").iter().filter_map(Value::as_str);
        let given: Vec<_> = given.filter_map(|argument| argument.strip_prefix("--oidc-issuers=")).collect();
        let expected = argument.map(|key| format!("/etc/amphora/oidc-issuers/{key}"));
        assert_eq!(given, expected.iter().map(String::as_str).collect::<Vec<_>>(), "{file:?}");
        let mounted = mounts(server).into_iter().find(|mount| mount["mountPath"] == "/etc/amphora/oidc-issuers");
        assert_eq!(mounted.map(|mount| mount["readOnly"] == true), argument.map(|_| true), "{file:?}");
        let pod = &of_kind(&objects, "StatefulSet")[0]["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().expect("volumes");
        let map =
            volumes.iter().find(|volume| volume["name"] == "oidc-issuers").map(|volume| &volume["configMap"]["name"]);
        assert_eq!(map, argument.map(|_| Value::from("further-issuers")).as_ref(), "{file:?}");
        let cluster = server["args"].to_string().contains("--oidc-issuer=");
        assert_eq!(cluster, argument == Some("issuers.toml"), "{file:?}");
    }
}

#[test]
fn topology_capacity_and_foreign_sources_are_turned_on_by_values_alone() {
    for (values, asked) in [(None, false), (Some("ci/all-values.yaml"), true)] {
        let objects = need!(rendered(values.map(|file| chart().join(file)).as_deref()));
        let args = |wanted: &str| {
            let container = containers(&objects).into_iter().find(|one| name(one) == wanted).expect("a container");
            container["args"].to_string()
        };
        assert_eq!(args("amphora").contains("--csi-topology=topology.kubernetes.io/zone=z1"), asked);
        assert_eq!(args("amphora-node").contains("--csi-topology=topology.kubernetes.io/zone=$(TOPOLOGY_0)"), asked);
        assert_eq!(args("amphora-node").contains("--csi-max-volumes=100"), asked);
        assert_eq!(args("csi-provisioner").contains("--enable-capacity"), asked);
        assert_eq!(args("csi-provisioner").contains("CrossNamespaceVolumeDataSource=true"), asked);
        assert_eq!(of_kind(&objects, "CSIDriver")[0]["spec"]["storageCapacity"] == true, asked);
        assert_eq!(of_kind(&objects, "CSIDriver")[0]["spec"]["seLinuxMount"] == true, asked);
        let roles =
            serde_json::to_string(&[of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")]).expect("JSON");
        for resource in ["\"nodes\"", "referencegrants", "csistoragecapacities"] {
            assert_eq!(roles.contains(resource), asked, "{resource}");
        }
    }
}

#[test]
fn a_store_in_postgresql_and_s3_has_an_owner_and_a_standby_and_no_secret_in_the_objects() {
    let objects = need!(rendered(Some(&chart().join("ci/elsewhere-values.yaml"))));
    let sets = of_kind(&objects, "StatefulSet");
    let spec = &sets[0]["spec"];
    assert_eq!((&spec["replicas"], &spec["podManagementPolicy"]), (&Value::from(2), &Value::from("Parallel")));
    assert_eq!(spec["updateStrategy"]["type"], "OnDelete", "a standby is never ready");
    let server = spec["template"]["spec"]["containers"].as_array().expect("containers")[0].clone();
    let variables = server["env"].as_array().expect("variables");
    for secret in ["PGPASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        let found = variables.iter().find(|it| name(it) == secret).expect(secret);
        assert!(found["valueFrom"]["secretKeyRef"].is_object() && found["value"].is_null(), "{found}");
    }
    assert_eq!(server["readinessProbe"]["httpGet"]["path"], "/readyz", "the Service leads to the owner");
}
