// Command manifests reads Kubernetes objects as YAML from its standard input and prints them as a JSON array. Each object is
// decoded into the Go type of its kind, strictly: a field that the type does not have, or that occurs twice, is an error.
// Objects of kinds that other projects define (custom resources) are passed on as they are, and with --unchecked any YAML.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	sigs "sigs.k8s.io/yaml"
)

// Groups whose types are not part of Kubernetes itself.
var foreign = []string{
	"snapshot.storage.k8s.io/", "groupsnapshot.storage.k8s.io/", "objectstorage.k8s.io/", "monitoring.coreos.com/",
	"cert-manager.io/", "cbt.storage.k8s.io/",
}

func main() {
	unchecked := len(os.Args) > 1 && os.Args[1] == "--unchecked"
	if err := run(os.Stdin, os.Stdout, unchecked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, unchecked bool) error {
	options := serializer.SerializerOptions{Yaml: true, Strict: true}
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, options)
	documents := yaml.NewYAMLReader(bufio.NewReader(in))
	all := []map[string]any{}
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return json.NewEncoder(out).Encode(all)
		} else if err != nil {
			return err
		}
		var object map[string]any
		if err := sigs.UnmarshalStrict(text, &object); err != nil {
			return fmt.Errorf("%w in:\n%s", err, text)
		}
		if len(object) == 0 {
			continue
		}
		if unchecked {
			all = append(all, object)
			continue
		}
		if err := check(strict, object, text); err != nil {
			return fmt.Errorf("%v %v: %w", object["kind"], object["metadata"], err)
		}
		all = append(all, object)
	}
}

func check(strict runtime.Decoder, object map[string]any, text []byte) error {
	version, _ := object["apiVersion"].(string)
	for _, group := range foreign {
		if strings.HasPrefix(version, group) {
			return nil
		}
	}
	_, _, err := strict.Decode(text, nil, nil)
	return err
}
