// Renders a chart as `helm template` does, where there is no helm: with Go's templates and Sprig, which helm is made of, as Debian
// packages them (golang-github-masterminds-sprig-dev, golang-k8s-sigs-yaml-dev). Not there: lookup, .Files, subcharts, hooks.
// Arguments: the folder of the chart. Input: {"release","namespace","kubeVersion","values"}. Output: {file: text}.
// A value that values.yaml does not have is an error.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

type input struct {
	Release, Namespace, KubeVersion string
	Values                          object
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(file string, into interface{}) {
	text, err := os.ReadFile(file)
	must(err)
	must(yaml.Unmarshal(text, into))
}

// As helm does: objects are merged, everything else is replaced, null takes away.
func merged(base, over object) object {
	for name, value := range over {
		inner, isObject := value.(object)
		old, wasObject := base[name].(object)
		switch {
		case value == nil:
			delete(base, name)
		case isObject && wasObject:
			base[name] = merged(old, inner)
		default:
			base[name] = value
		}
	}
	return base
}

func toYaml(value interface{}) string {
	text, err := yaml.Marshal(value)
	must(err)
	return strings.TrimSuffix(string(text), "\n")
}

func main() {
	folder := os.Args[1]
	var given input
	must(json.NewDecoder(os.Stdin).Decode(&given))
	chart, values := object{}, object{}
	read(filepath.Join(folder, "Chart.yaml"), &chart)
	read(filepath.Join(folder, "values.yaml"), &values)

	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	// Helm leaves these out.
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["toYaml"] = toYaml
	functions["fromYaml"] = func(text string) (object, error) {
		parsed := object{}
		return parsed, yaml.Unmarshal([]byte(text), &parsed)
	}
	functions["toJson"] = func(value interface{}) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["required"] = func(warning string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(warning)
		}
		return value, nil
	}
	all.Funcs(functions)

	files, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(err)
		_, err = all.New(filepath.Base(file)).Parse(string(text))
		must(err)
	}
	about := object{}
	for name, value := range chart {
		about[strings.ToUpper(name[:1])+name[1:]] = value
	}
	data := object{
		"Values":       merged(values, given.Values),
		"Chart":        about,
		"Release":      object{"Name": given.Release, "Namespace": given.Namespace, "Service": "Helm", "IsInstall": true, "Revision": 1},
		"Capabilities": object{"KubeVersion": object{"Version": given.KubeVersion}},
	}
	rendered := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var text bytes.Buffer
		must(all.ExecuteTemplate(&text, name, data))
		rendered[name] = text.String()
	}
	must(json.NewEncoder(os.Stdout).Encode(rendered))
}
