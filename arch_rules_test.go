package shoal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is the module's path.
const module = "shoal"

// The budgets.
const (
	maxFileLines     = 500
	maxTestFileLines = 1500
	maxFuncLines     = 80
	maxMethods       = 40
	maxInterface     = 15
	maxParams        = 6
)

// source is one parsed Go file.
type source struct {
	path, dir string
	test      bool
	generated bool
	lines     int
	fset      *token.FileSet
	file      *ast.File
}

func parseSource(name, text string) (source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, fmt.Errorf("parse: %w", err)
	}
	return source{
		path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(f),
		lines: strings.Count(text, "\n"), fset: fset, file: f,
	}, nil
}

// at returns a position for a message.
func (s source) at(p token.Pos) string { return fmt.Sprintf("%s:%d", s.path, s.fset.Position(p).Line) }

// imports returns the imported paths of a file.
func (s source) imports() []string {
	var list []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		list = append(list, p)
	}
	return list
}

type rule struct {
	name  string
	check func([]source) []string
}

func rules() []rule {
	return []rule{
		{"imports", checkImports},
		{"fences", checkFences},
		{"budgets", checkBudgets},
		{"package docs", checkPackageDocs},
		{"package names", checkPackageNames},
		{"no sleep in tests", checkSleep},
		{"words", checkWords},
		{"no init", checkInit},
		{"no error text matching", checkErrorText},
		{"open ends", checkOpenEnds},
		{"failpoints", checkFailpoints},
	}
}

// checkImports holds the import rule, and that every package has a place.
func checkImports(tree []source) (bad []string) {
	for _, s := range tree {
		g, _, ok := placeOf(s.dir)
		if !ok {
			bad = append(bad, fmt.Sprintf("%s: the folder %s has no place: add it to places in arch_places_test.go", s.path, s.dir))
			continue
		}
		for _, p := range s.imports() {
			to, ours := strings.CutPrefix(p, module+"/")
			if ours && !allowedImport(s.dir, to, s.test) {
				tg, _, _ := placeOf(to)
				bad = append(bad, fmt.Sprintf("%s (%s) imports %s (%s): %s", s.path, g, p, tg, instead[g]))
			}
			if g == groupCore && !s.test && !ours && strings.Contains(p, ".") {
				bad = append(bad, fmt.Sprintf("%s imports %s: core has the standard library only", s.path, p))
			}
		}
	}
	return bad
}

// checkFences keeps libraries where they belong.
func checkFences(tree []source) (bad []string) {
	for _, s := range tree {
		for _, p := range s.imports() {
			if why := fenced(s, p); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", s.path, p, why))
			}
		}
	}
	return bad
}

// finding is one thing over its budget; key is how exempt names it.
type finding struct{ key, message string }

func checkBudgets(tree []source) (bad []string) {
	for _, f := range overBudget(tree) {
		if _, ok := exempt[f.key]; !ok {
			bad = append(bad, f.message)
		}
	}
	return bad
}

// overBudget finds files, functions, types, interfaces and parameter lists that are too large. Functions of tests are free.
func overBudget(tree []source) []finding {
	var list []finding
	add := func(key string, n, budget int, unit string) {
		if n > budget {
			list = append(list, finding{key, fmt.Sprintf("%s: %d %s, the budget is %d", key, n, unit, budget)})
		}
	}
	methods := map[string]int{}
	for _, s := range tree {
		if s.generated {
			continue
		}
		budget := maxFileLines
		if s.test || strings.HasSuffix(path.Base(s.dir), "test") {
			budget = maxTestFileLines
		}
		add(s.path, s.lines, budget, "lines")
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				key := s.path + ": " + funcName(n)
				if recv := receiver(n); recv != "" && !s.test {
					methods[s.dir+": type "+recv]++
				}
				if !s.test && !strings.HasSuffix(path.Base(s.dir), "test") {
					add(key, s.fset.Position(n.End()).Line-s.fset.Position(n.Pos()).Line+1, maxFuncLines, "lines")
				}
				add(key, n.Type.Params.NumFields(), maxParams, "parameters")
			case *ast.TypeSpec:
				if i, ok := n.Type.(*ast.InterfaceType); ok {
					add(s.path+": interface "+n.Name.Name, i.Methods.NumFields(), maxInterface, "methods")
				}
			}
			return true
		})
	}
	for _, key := range slices.Sorted(maps.Keys(methods)) {
		add(key, methods[key], maxMethods, "methods")
	}
	return list
}

func funcName(f *ast.FuncDecl) string {
	if r := receiver(f); r != "" {
		return r + "." + f.Name.Name
	}
	return f.Name.Name
}

// receiver returns the type name of a method's receiver, empty for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// checkPackageDocs wants one package comment of more than a phrase in every package.
func checkPackageDocs(tree []source) (bad []string) {
	docs := map[string]string{}
	for _, s := range tree {
		if s.test {
			continue
		}
		docs[s.dir] += s.file.Doc.Text()
	}
	for _, dir := range slices.Sorted(maps.Keys(docs)) {
		text := docs[dir]
		switch {
		case text == "":
			bad = append(bad, dir+": no package comment: say what it is for, what it must not know, where to start")
		case !strings.HasPrefix(text, "Package ") && !strings.HasPrefix(text, "Command "):
			bad = append(bad, dir+`: the package comment must start with "Package " or "Command "`)
		case len(strings.Fields(text)) < 12:
			bad = append(bad, dir+": the package comment is a phrase: say what it is for, what it must not know, where to start")
		}
	}
	return bad
}

var grabBag = regexp.MustCompile(`^(utils?|helpers?|common|shared|types|models?|misc|consts?|libs?)$`)

// checkPackageNames refuses grab-bags, as packages and as files.
func checkPackageNames(tree []source) (bad []string) {
	for _, s := range tree {
		file := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
		if grabBag.MatchString(path.Base(s.dir)) || grabBag.MatchString(file) {
			bad = append(bad, s.path+": a grab-bag: name it after a noun or verb of the domain")
		}
	}
	return bad
}

// checkSleep refuses time.Sleep in tests.
func checkSleep(tree []source) (bad []string) {
	for _, s := range tree {
		if !s.test && !strings.HasSuffix(path.Base(s.dir), "test") && s.dir != "test/harness" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && isSelector(sel, "time", "Sleep") {
				bad = append(bad, s.at(n.Pos())+": time.Sleep in a test: wait for the condition, or use testing/synctest")
			}
			return true
		})
	}
	return bad
}

func isSelector(sel *ast.SelectorExpr, pkg, name string) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && sel.Sel.Name == name
}

// checkWords refuses our own names that use a banned noun. What other packages call things is their business.
func checkWords(tree []source) (bad []string) {
	for _, s := range tree {
		if s.generated {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, id := range declared(n) {
				if strings.Contains(strings.ToLower(id.Name), "snap"+"shot") {
					bad = append(bad, fmt.Sprintf("%s: %s: say checkpoint, tree, clone or template: vendors mean three different things by this word",
						s.at(id.Pos()), id.Name))
				}
			}
			return true
		})
	}
	return bad
}

// declared returns the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		var list []*ast.Ident
		for _, e := range n.Lhs {
			if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
				list = append(list, id)
			}
		}
		return list
	}
	return nil
}

// checkInit refuses init functions: cmd/ wires by hand.
func checkInit(tree []source) (bad []string) {
	for _, s := range tree {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !s.generated {
				bad = append(bad, s.at(f.Pos())+": init function: build it in New or in cmd/")
			}
		}
	}
	return bad
}

// checkErrorText refuses decisions on the text of an error, outside drivers, which turn foreign errors into ours once.
func checkErrorText(tree []source) (bad []string) {
	for _, s := range tree {
		if g, _, _ := placeOf(s.dir); s.test || g == groupDriver || g == groupJoin {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isSelector(sel, "strings", "Contains") && !isSelector(sel, "strings", "HasPrefix") && !isSelector(sel, "strings", "HasSuffix") {
				return true
			}
			if inner, ok := call.Args[0].(*ast.CallExpr); ok {
				if is, ok := inner.Fun.(*ast.SelectorExpr); ok && is.Sel.Name == "Error" && len(inner.Args) == 0 {
					bad = append(bad, s.at(n.Pos())+": decides on the text of an error: use errors.Is or core.CodeOf")
				}
			}
			return true
		})
	}
	return bad
}

var (
	openEnd  = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	numbered = regexp.MustCompile(`TODO\(#\d+\)`)
)

// checkOpenEnds refuses notes to self.
func checkOpenEnds(tree []source) (bad []string) {
	for _, s := range tree {
		if s.generated {
			continue
		}
		for _, g := range s.file.Comments {
			for _, c := range g.List {
				if openEnd.MatchString(c.Text) && !numbered.MatchString(c.Text) {
					bad = append(bad, s.at(c.Pos())+": an open end in a comment: do it, or name the issue as TODO(#n)")
				}
			}
		}
	}
	return bad
}

// checkFailpoints wants every declared point to be listed in Names and to be hit somewhere.
func checkFailpoints(tree []source) (bad []string) {
	names := map[string]bool{}
	listed, used := map[string]bool{}, map[string]bool{}
	for _, s := range tree {
		if s.path == "internal/failpoint/names.go" {
			pointNames(s.file, names, listed)
			continue
		}
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "failpoint" {
					used[sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !listed[name] {
			bad = append(bad, "internal/failpoint/names.go: "+name+" is missing in Names")
		}
		if !used[name] {
			bad = append(bad, "internal/failpoint/names.go: "+name+" is hit nowhere")
		}
	}
	return bad
}

// pointNames collects the constants of the file and what its function Names mentions.
func pointNames(f *ast.File, names, listed map[string]bool) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST {
					for _, id := range v.Names {
						names[id.Name] = true
					}
				}
			}
		case *ast.FuncDecl:
			ast.Inspect(d.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					listed[id.Name] = true
				}
				return true
			})
		}
	}
}
