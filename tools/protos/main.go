// Command protos makes Go of .proto files, without protoc: it compiles them itself and hands the result to the plugins that it is
// built with (protoc-gen-go and protoc-gen-connect-go, at the versions in tools/go.mod). The generated file is put beside its source.
//
// Use: go -C tools run ./protos -root .. FILE…, with paths relative to root.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	root := flag.String("root", ".", "the module's folder")
	out := flag.String("out", "", "where to write, in the same folders as below root; the default is root")
	flag.Parse()
	if *out == "" {
		*out = *root
	}
	for _, name := range flag.Args() {
		if err := generate(*root, *out, name); err != nil {
			fmt.Fprintln(os.Stderr, "protos:", err)
			os.Exit(1)
		}
	}
}

// generate compiles one file and writes what the plugins make of it.
func generate(root, out, name string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return fmt.Errorf("compile %s: %w", name, err)
	}
	req := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{name}, ProtoFile: descriptors(files[0], map[string]bool{})}
	for plugin, parameter := range map[string]string{
		"google.golang.org/protobuf/cmd/protoc-gen-go":     "paths=source_relative",
		"connectrpc.com/connect/cmd/protoc-gen-connect-go": "paths=source_relative,package_suffix=",
	} {
		req.Parameter = proto.String(parameter)
		if err := run(plugin, req, out); err != nil {
			return err
		}
	}
	return nil
}

// descriptors returns a file after those that it imports.
func descriptors(f protoreflect.FileDescriptor, seen map[string]bool) (list []*descriptorpb.FileDescriptorProto) {
	if seen[f.Path()] {
		return nil
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		list = append(list, descriptors(f.Imports().Get(i).FileDescriptor, seen)...)
	}
	return append(list, protoutil.ProtoFromFileDescriptor(f))
}

// run hands a request to a plugin and writes the files that it answers with.
func run(plugin string, req *pluginpb.CodeGeneratorRequest, out string) error {
	in, err := proto.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	cmd := exec.Command("go", "run", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run %s: %w", plugin, err)
	}
	var reply pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &reply); err != nil {
		return fmt.Errorf("decode answer of %s: %w", plugin, err)
	}
	if reply.Error != nil {
		return errors.New(reply.GetError())
	}
	for _, f := range reply.GetFile() {
		if err := write(filepath.Join(out, filepath.FromSlash(f.GetName())), f.GetContent()); err != nil {
			return err
		}
	}
	return nil
}

func write(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
