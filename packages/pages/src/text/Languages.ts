/** The languages that `Colours.ts` knows: how their comments and strings begin and end, and their words. */

export interface Language {
  /** Beginnings of comments that end with their line. */
  readonly line: ReadonlyArray<string>
  /** Beginnings and ends of longer comments. */
  readonly block: ReadonlyArray<readonly [open: string, close: string]>
  /** Quotes of strings. Those of {@link long} may have several lines. */
  readonly strings: ReadonlyArray<string>
  readonly long: ReadonlyArray<string>
  readonly keywords: ReadonlySet<string>
  /** Keywords count whatever their case. */
  readonly anyCase: boolean
  /** Lines begin with a name and `:` or `=`. */
  readonly keys: boolean
  /** `/…/` is a regular expression where a value may stand. */
  readonly regex: boolean
  /** `$name` is a variable, and a comment begins after a space only. */
  readonly shell: boolean
  /** Between tags is text. */
  readonly markup: boolean
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "))

const none: Language = {
  line: [],
  block: [],
  strings: ["\"", "'"],
  long: [],
  keywords: new Set(),
  anyCase: false,
  keys: false,
  regex: false,
  shell: false,
  markup: false
}

const c = { ...none, line: ["//"], block: [["/*", "*/"]] } satisfies Language

const SCRIPT =
  "async await break case catch class const continue debugger default delete do else export extends finally for from function get " +
  "if import in instanceof let new of return set static super switch this throw try typeof var void while with yield"
const TYPES =
  " abstract any as asserts boolean declare enum implements infer interface is keyof module namespace never number object override " +
  "private protected public readonly satisfies string symbol type unique unknown"
const C =
  "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return " +
  "short signed sizeof static struct switch typedef union unsigned void volatile while bool"

const script: Language = { ...c, strings: ["\"", "'", "`"], long: ["`"], regex: true, keywords: words(SCRIPT) }
const typed: Language = { ...script, keywords: words(SCRIPT + TYPES) }
const shell: Language = {
  ...none,
  line: ["#"],
  long: ["\"", "'"],
  shell: true,
  keywords: words(
    "alias break case cd continue declare do done echo elif else esac eval exec exit export fi for function if in " +
      "local read readonly return set shift source then trap unset until while"
  )
}
const markup: Language = { ...none, block: [["<!--", "-->"]], markup: true }
const css: Language = {
  ...c,
  keys: true,
  keywords: words(
    "important media import supports keyframes font-face layer container use include mixin extend if else for each"
  )
}
const settings: Language = { ...none, line: ["#"], keys: true, keywords: words("true false null yes no on off") }

/** By the name that a fence or an ending of a file gives it. */
const known: Readonly<Record<string, Language>> = {
  bash: shell,
  c: { ...c, keywords: words(C) },
  clojure: {
    ...none,
    line: [";"],
    strings: ["\""],
    long: ["\""],
    keywords: words("def defn defmacro fn if let loop recur ns require do when cond")
  },
  cpp: {
    ...c,
    keywords: words(
      `${C} catch class constexpr consteval co_await co_return concept decltype delete explicit export final friend ` +
        "mutable namespace new noexcept operator override private protected public requires template this throw try " +
        "typename using virtual"
    )
  },
  csharp: {
    ...c,
    keywords: words(
      "abstract as async await base bool break byte case catch char class const continue decimal default delegate do " +
        "double else enum event explicit extern finally fixed float for foreach get if implicit in init int interface " +
        "internal is lock long namespace new object operator out override params private protected public readonly " +
        "record ref required return sealed set short static string struct switch this throw try typeof uint using var " +
        "virtual void when where while yield"
    )
  },
  css,
  dart: {
    ...c,
    long: ["\"\"\"", "'''"],
    strings: ["\"\"\"", "'''", "\"", "'"],
    keywords: words(`${SCRIPT} abstract as bool double dynamic enum factory final int late mixin num required String`)
  },
  dockerfile: {
    ...none,
    line: ["#"],
    shell: true,
    keywords: words(
      "FROM AS RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL HEALTHCHECK " +
        "SHELL"
    )
  },
  elixir: {
    ...none,
    line: ["#"],
    strings: ["\"\"\"", "\"", "'"],
    long: ["\"\"\"", "\""],
    keywords: words(
      "after and case catch cond def defmodule defp defstruct do else end fn for if import in not or quote receive " +
        "rescue use when"
    )
  },
  erlang: { ...none, line: ["%"], keywords: words("after begin case catch end fun if of receive try when") },
  go: {
    ...c,
    strings: ["\"", "'", "`"],
    long: ["`"],
    keywords: words(
      "any bool break byte case chan const continue default defer else error fallthrough float64 for func go goto if " +
        "import int int64 interface map package range return rune select string struct switch type uint uint64 var"
    )
  },
  graphql: {
    ...none,
    line: ["#"],
    strings: ["\"\"\"", "\""],
    long: ["\"\"\""],
    keywords: words(
      "directive enum extend fragment implements input interface mutation on query scalar schema subscription type " +
        "union"
    )
  },
  haskell: {
    ...none,
    line: ["--"],
    block: [["{-", "-}"]],
    strings: ["\""],
    keywords: words("case class data deriving do else if import in infix instance let module newtype of then type where")
  },
  html: markup,
  java: {
    ...c,
    strings: ["\"\"\"", "\"", "'"],
    long: ["\"\"\""],
    keywords: words(
      "abstract assert boolean break byte case catch char class const continue default do double else enum extends " +
        "final finally float for if implements import instanceof int interface long native new package permits private " +
        "protected public record return sealed short static strictfp super switch synchronized this throw throws " +
        "transient try var void volatile while yield"
    )
  },
  javascript: script,
  json: { ...c, strings: ["\""], keys: true },
  kotlin: {
    ...c,
    strings: ["\"\"\"", "\"", "'"],
    long: ["\"\"\""],
    keywords: words(
      "abstract as break by catch class companion const constructor continue data do else enum final finally for fun " +
        "if import in init inline interface internal is lateinit object open operator override package private " +
        "protected public return sealed super suspend this throw try typealias val var vararg when where while"
    )
  },
  lua: {
    ...none,
    line: ["--"],
    block: [["--[[", "]]"]],
    keywords: words("and break do else elseif end for function goto if in local not or repeat return then until while")
  },
  makefile: { ...settings, shell: true, keywords: words("define else endef endif export ifdef ifeq ifndef ifneq include override") },
  nix: {
    ...none,
    line: ["#"],
    block: [["/*", "*/"]],
    strings: ["''", "\""],
    long: ["''", "\""],
    keywords: words("assert else if import in inherit let or rec then with")
  },
  php: {
    ...c,
    line: ["//", "#"],
    keywords: words(
      "abstract array as break case catch class clone const continue declare default do echo else elseif empty enum " +
        "extends final finally fn for foreach function global if implements include instanceof interface isset match " +
        "namespace new private protected public readonly require require_once return static string switch throw trait " +
        "try unset use var void while yield int bool float self"
    )
  },
  powershell: {
    ...shell,
    block: [["<#", "#>"]],
    anyCase: true,
    keywords: words(
      "begin catch else elseif end exit finally for foreach function if in param process return switch throw try " +
        "while"
    )
  },
  proto: {
    ...c,
    keywords: words(
      "bool bytes double enum extend float import int32 int64 map message oneof option optional package repeated " +
        "returns rpc service stream string syntax uint32 uint64"
    )
  },
  python: {
    ...none,
    line: ["#"],
    strings: ["\"\"\"", "'''", "\"", "'"],
    long: ["\"\"\"", "'''"],
    keywords: words(
      "and as assert async await break case class continue def del elif else except finally for from global if import " +
        "in is lambda match nonlocal not or pass raise return self try while with yield"
    )
  },
  r: { ...none, line: ["#"], keywords: words("break else for function if in library next repeat return while TRUE FALSE NULL NA") },
  ruby: {
    ...none,
    line: ["#"],
    keywords: words(
      "alias and attr_accessor attr_reader begin break case class def defined? do else elsif end ensure extend for if " +
        "in include module next not or private protected public raise redo require require_relative rescue retry return " +
        "self super then undef unless until when while yield"
    )
  },
  rust: {
    ...c,
    strings: ["\""],
    long: ["\""],
    keywords: words(
      "as async await bool break const continue crate dyn else enum extern f64 fn for i32 i64 if impl in let loop " +
        "match mod move mut pub ref return self static str struct super trait type u8 u32 u64 union unsafe use usize " +
        "where while"
    )
  },
  scala: {
    ...c,
    strings: ["\"\"\"", "\""],
    long: ["\"\"\""],
    keywords: words(
      "abstract case catch class def do else enum extends extension final finally for given if implicit import lazy " +
        "match new object override package private protected return sealed super this throw trait try type using val " +
        "var while with yield then"
    )
  },
  sql: {
    ...none,
    line: ["--"],
    block: [["/*", "*/"]],
    long: ["'"],
    anyCase: true,
    keywords: words(
      "add all alter and any as asc begin between bigint boolean by cascade case check column commit conflict " +
        "constraint create cross date default delete desc distinct do drop else end exists explain foreign from full " +
        "function grant group having if in index inner insert int integer into is join jsonb key lateral left like " +
        "limit materialized not nothing null numeric offset on or order outer over partition primary recursive " +
        "references replace returning returns right rollback row select serial set table text then timestamptz to " +
        "transaction trigger truncate union unique update using uuid values varchar view when where with"
    )
  },
  swift: {
    ...c,
    strings: ["\"\"\"", "\""],
    long: ["\"\"\""],
    keywords: words(
      "actor as async await break case catch class continue default defer deinit do else enum extension fileprivate " +
        "final for func guard if import in init inout internal is lazy let mutating nonisolated open override private " +
        "protocol public repeat return self some static struct super switch throw throws try typealias var weak where " +
        "while"
    )
  },
  terraform: {
    ...settings,
    line: ["#", "//"],
    block: [["/*", "*/"]],
    keywords: words("data for if in locals module output provider resource terraform variable")
  },
  toml: { ...settings, strings: ["\"\"\"", "'''", "\"", "'"], long: ["\"\"\"", "'''"] },
  typescript: typed,
  yaml: { ...settings, shell: true },
  zig: {
    ...c,
    strings: ["\""],
    keywords: words(
      "and break catch comptime const continue defer else enum error export fn for if inline or orelse pub return " +
        "struct switch test try union unreachable usingnamespace var while"
    )
  }
}

const ALIASES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    bash: "sh shell zsh console fish ksh",
    c: "h",
    clojure: "clj cljs edn lisp el scm",
    cpp: "cc cxx hpp hh hxx c++ cu ino m mm objc",
    csharp: "cs c#",
    css: "scss sass less",
    dockerfile: "docker containerfile",
    elixir: "ex exs",
    erlang: "erl hrl",
    go: "golang",
    graphql: "gql graphqls",
    haskell: "hs",
    html: "htm xhtml xml svg vue svelte astro xsd xsl plist csproj",
    java: "groovy gradle",
    javascript: "js jsx mjs cjs",
    json: "jsonc json5 webmanifest geojson ipynb",
    kotlin: "kt kts",
    makefile: "make mk cmake",
    php: "phtml",
    powershell: "ps1 psm1 pwsh",
    proto: "protobuf",
    python: "py pyi pyw py3 bzl starlark",
    ruby: "rb rake gemspec gemfile rakefile podfile",
    rust: "rs",
    scala: "sbt sc",
    sql: "psql pgsql mysql sqlite plsql",
    terraform: "tf hcl tfvars",
    toml: "lock",
    typescript: "ts tsx mts cts",
    yaml: "yml"
  }).flatMap(([name, aliases]) => aliases.split(" ").filter((alias) => alias !== "").map((alias) => [alias, name] as const))
)

const ini: Language = { ...settings, line: ["#", ";"] }
const INI = words("ini cfg conf properties env editorconfig gitconfig service")

/** By the name that writers of fences give it, such as `ts` or `typescript`; `null`: none that we know. */
export const named = (name: string): Language | null => {
  const low = name.toLowerCase()
  if (INI.has(low)) return ini
  const canonical = Object.hasOwn(ALIASES, low) ? ALIASES[low] ?? low : low
  return Object.hasOwn(known, canonical) ? known[canonical] ?? null : null
}

/** By the name of a file. */
export const ofFile = (path: string): Language | null => {
  const name = path.slice(path.lastIndexOf("/") + 1)
  return named(name) ?? (name.includes(".") ? named(name.slice(name.lastIndexOf(".") + 1)) : null)
}
