//! The alert rules and the dashboard of `deploy/monitoring`: they load, they work, and a server serves each metric and
//! label that they name.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::metrics::{documented, family_of};
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(60);

/// Labels that Prometheus adds, and those of histograms.
const ADDED: [&str; 3] = ["instance", "job", "le"];

fn file(name: &str) -> PathBuf {
    repo().join("deploy/monitoring").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).expect(name)
}

/// Names in an expression, each with what follows it.
fn words(expression: &str) -> Vec<(&str, &str)> {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut words = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(part) {
        let word = &rest[start..];
        let end = word.find(|letter| !part(letter)).unwrap_or(word.len());
        words.push((&word[..end], &word[end..]));
        rest = &word[end..];
    }
    words
}

/// What is wrong with the metrics and labels that a text names.
fn faults(text: &str) -> Vec<String> {
    let known = documented();
    let mut faults = Vec::new();
    let mut found = 0;
    for (word, after) in words(text) {
        if !(word.starts_with("amphora_") || word.starts_with("process_")) {
            continue;
        }
        found += 1;
        let Some(name) = family_of(word, |name| known.contains_key(name)) else {
            faults.push(format!("{word} is not served"));
            continue;
        };
        let Some(inner) = after.strip_prefix('{').and_then(|rest| rest.split_once('}')) else { continue };
        for pair in inner.0.split(',') {
            let label = pair.split(['=', '!']).next().unwrap_or_default().trim();
            if !ADDED.contains(&label) && !known[&name].labels.contains(label) {
                faults.push(format!("{word} has no label {label}"));
            }
        }
    }
    if found == 0 {
        faults.push("no metric is named".to_owned());
    }
    faults.extend(ungrouped(text));
    faults
}

/// Labels that an expression groups by and none of its metrics has.
fn ungrouped(expression: &str) -> Vec<String> {
    let known = documented();
    let families =
        words(expression).into_iter().filter_map(|(word, _)| family_of(word, |name| known.contains_key(name)));
    let labels: BTreeSet<&String> = families.flat_map(|name| &known.get(&name).expect("known").labels).collect();
    let groups = expression.split("by (").skip(1).filter_map(|rest| rest.split_once(')'));
    let names = groups.flat_map(|(names, _)| names.split(',').map(str::trim));
    let missing = names.filter(|name| !ADDED.contains(name) && !labels.iter().any(|label| label == name));
    missing.map(|name| format!("nothing has the label {name}: {expression}")).collect()
}

/// The expressions of the rules: what stands behind `expr:`, on its line or folded below it.
fn rules() -> Vec<String> {
    let text = text("alerts.yml");
    let mut expressions: Vec<String> = Vec::new();
    let mut folded = false;
    for line in text.lines() {
        if let Some(expression) = line.trim().strip_prefix("expr: ") {
            folded = expression == ">-";
            expressions.push(if folded { String::new() } else { expression.to_owned() });
        } else if folded && line.starts_with("          ") {
            expressions.last_mut().expect("one began").push_str(line.trim());
        } else {
            folded = false;
        }
    }
    expressions
}

#[test]
fn rules_and_dashboard_name_existing_metrics_and_labels() {
    let rules = rules();
    assert_eq!(rules.len(), text("alerts.yml").matches("- alert: ").count());
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let shown: Vec<&str> = targets.map(|target| target["expr"].as_str().expect("an expression")).collect();
    assert!(rules.len() > 10 && shown.len() > 30, "{} {}", rules.len(), shown.len());
    for expression in rules.iter().map(String::as_str).chain(shown) {
        let faults = faults(expression);
        assert!(faults.is_empty(), "{expression}: {faults:?}");
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).expect("JSON");
    assert!(dashboard["title"].is_string() && dashboard["schemaVersion"].is_number() && dashboard["uid"].is_string());
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let names: Vec<_> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "instance"]);
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        let place = &panel["gridPos"];
        let at = |name: &str| place[name].as_u64().expect(name);
        assert!(at("x") + at("w") <= 24 && at("h") > 0, "{panel}");
        assert!(panel["title"].is_string() && panel["type"].is_string(), "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel}");
        }
    }
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    let promtool = need!(required("promtool"));
    for (arguments, name) in [(["check", "rules"], "alerts.yml"), (["test", "rules"], "alerts_test.yml")] {
        let outcome = run(Command::new(&promtool).args(arguments).arg(file(name)), LIMIT).expect("it ends");
        assert!(outcome.status.success(), "{outcome}");
    }
}

#[test]
fn promtool_accepts_each_expression_of_the_dashboard() {
    let promtool = need!(required("promtool"));
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, target) in targets.enumerate() {
        // What Grafana puts in the place of its variables.
        let expression = target["expr"]
            .as_str()
            .expect("an expression")
            .replace("$__rate_interval", "5m")
            .replace("$instance", ".*");
        let quoted = Value::from(expression);
        rules.push_str(&format!("      - {{ record: \"panel:{number}\", expr: {quoted} }}\n"));
    }
    let home = Home::new().expect("a folder");
    let file = home.path().join("rules.yml");
    std::fs::write(&file, rules).expect("written");
    let outcome = run(Command::new(&promtool).args(["check", "rules"]).arg(file), LIMIT).expect("it ends");
    assert!(outcome.status.success(), "{outcome}");
}

#[test]
fn an_unknown_metric_and_an_unknown_label_are_found() {
    assert!(faults("rate(amphora_s3_requests_total{status=~\"5..\",instance=\"a\"}[5m])").is_empty());
    assert_eq!(faults("amphora_nothing > 0"), ["amphora_nothing is not served"]);
    assert_eq!(faults("amphora_mounts{bucket=\"b\"}"), ["amphora_mounts has no label bucket"]);
    assert_eq!(faults("sum by (bucket) (amphora_mounts)").len(), 1);
}
