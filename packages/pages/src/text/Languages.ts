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

const [DOUBLE, SINGLE, BACK, TRIPLE, TRIPLE_SINGLE] = ["\"", "'", "`", "\"\"\"", "'''"] as const

type Shape = Omit<Language, "keywords">

const none: Shape = {
  line: [],
  block: [],
  strings: [DOUBLE, SINGLE],
  long: [],
  anyCase: false,
  keys: false,
  regex: false,
  shell: false,
  markup: false
}
const c: Shape = { ...none, line: ["//"], block: [["/*", "*/"]] }
const hash: Shape = { ...none, line: ["#"] }
const settings: Shape = { ...hash, keys: true }

/** By the name that a fence or an ending of a file gives it. */
const SHAPES: Readonly<Record<string, Shape>> = {
  bash: { ...hash, long: [DOUBLE, SINGLE], shell: true },
  c: c,
  clojure: { ...hash, line: [";"], strings: [DOUBLE], long: [DOUBLE] },
  cpp: c,
  csharp: c,
  css: { ...c, keys: true },
  dart: { ...c, strings: [TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE], long: [TRIPLE, TRIPLE_SINGLE] },
  dockerfile: { ...hash, shell: true },
  elixir: { ...hash, strings: [TRIPLE, DOUBLE, SINGLE], long: [TRIPLE, DOUBLE] },
  erlang: { ...hash, line: ["%"] },
  go: { ...c, strings: [DOUBLE, SINGLE, BACK], long: [BACK] },
  graphql: { ...hash, strings: [TRIPLE, DOUBLE], long: [TRIPLE] },
  haskell: { ...c, line: ["--"], block: [["{-", "-}"]], strings: [DOUBLE] },
  html: { ...none, block: [["<!--", "-->"]], markup: true },
  java: { ...c, strings: [TRIPLE, DOUBLE, SINGLE], long: [TRIPLE] },
  javascript: { ...c, strings: [DOUBLE, SINGLE, BACK], long: [BACK], regex: true },
  json: { ...c, strings: [DOUBLE], keys: true },
  kotlin: { ...c, strings: [TRIPLE, DOUBLE, SINGLE], long: [TRIPLE] },
  lua: { ...c, line: ["--"], block: [["--[[", "]]"]] },
  makefile: { ...settings, shell: true },
  nix: { ...c, line: ["#"], strings: ["''", DOUBLE], long: ["''", DOUBLE] },
  php: { ...c, line: ["//", "#"] },
  powershell: { ...hash, block: [["<#", "#>"]], long: [DOUBLE, SINGLE], anyCase: true, shell: true },
  proto: c,
  python: { ...hash, strings: [TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE], long: [TRIPLE, TRIPLE_SINGLE] },
  r: hash,
  ruby: hash,
  rust: { ...c, strings: [DOUBLE], long: [DOUBLE] },
  scala: { ...c, strings: [TRIPLE, DOUBLE], long: [TRIPLE] },
  sql: { ...c, line: ["--"], long: [SINGLE], anyCase: true },
  swift: { ...c, strings: [TRIPLE, DOUBLE], long: [TRIPLE] },
  terraform: { ...c, line: ["#", "//"], keys: true },
  toml: { ...settings, strings: [TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE], long: [TRIPLE, TRIPLE_SINGLE] },
  typescript: { ...c, strings: [DOUBLE, SINGLE, BACK], long: [BACK], regex: true },
  yaml: { ...settings, shell: true },
  zig: { ...c, strings: [DOUBLE] }
}

/** Words by language. `+c` stands for the words of `c`, which are further up. */
const WORDS = `
bash: alias break case cd continue declare do done echo elif else esac eval exec exit export fi for function if in local read readonly
  return set shift source then trap unset until while
c: auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short
  signed sizeof static struct switch typedef union unsigned void volatile while bool
clojure: def defn defmacro fn if let loop recur ns require do when cond
csharp: abstract as async await base bool break byte case catch char class const continue decimal default delegate do double else enum
  event explicit extern finally fixed float for foreach get if implicit in init int interface internal is lock long namespace new object
  operator out override params private protected public readonly record ref required return sealed set short static string struct switch
  this throw try typeof uint using var virtual void when where while yield
css: important media import supports keyframes font-face layer container use include mixin extend if else for each
dockerfile: FROM AS RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL HEALTHCHECK SHELL
elixir: after and case catch cond def defmodule defp defstruct do else end fn for if import in not or quote receive rescue use when
erlang: after begin case catch end fun if of receive try when
go: any bool break byte case chan const continue default defer else error fallthrough float64 for func go goto if import int int64
  interface map package range return rune select string struct switch type uint uint64 var
graphql: directive enum extend fragment implements input interface mutation on query scalar schema subscription type union
haskell: case class data deriving do else if import in infix instance let module newtype of then type where
java: abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for
  if implements import instanceof int interface long native new package permits private protected public record return sealed short static
  strictfp super switch synchronized this throw throws transient try var void volatile while yield
javascript: async await break case catch class const continue debugger default delete do else export extends finally for from function get
  if import in instanceof let new of return set static super switch this throw try typeof var void while with yield
kotlin: abstract as break by catch class companion const constructor continue data do else enum final finally for fun if import in init
  inline interface internal is lateinit object open operator override package private protected public return sealed super suspend this
  throw try typealias val var vararg when where while
lua: and break do else elseif end for function goto if in local not or repeat return then until while
makefile: define else endef endif export ifdef ifeq ifndef ifneq include override
nix: assert else if import in inherit let or rec then with
php: abstract array as break case catch class clone const continue declare default do echo else elseif empty enum extends final finally fn
  for foreach function global if implements include instanceof interface isset match namespace new private protected public readonly
  require require_once return static string switch throw trait try unset use var void while yield int bool float self
powershell: begin catch else elseif end exit finally for foreach function if in param process return switch throw try while
proto: bool bytes double enum extend float import int32 int64 map message oneof option optional package repeated returns rpc service
  stream string syntax uint32 uint64
python: and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match
  nonlocal not or pass raise return self try while with yield
r: break else for function if in library next repeat return while TRUE FALSE NULL NA
ruby: alias and attr_accessor attr_reader begin break case class def defined? do else elsif end ensure extend for if in include module
  next not or private protected public raise redo require require_relative rescue retry return self super then undef unless until when
  while yield
rust: as async await bool break const continue crate dyn else enum extern f64 fn for i32 i64 if impl in let loop match mod move mut pub
  ref return self static str struct super trait type u8 u32 u64 union unsafe use usize where while
scala: abstract case catch class def do else enum extends extension final finally for given if implicit import lazy match new object
  override package private protected return sealed super this throw trait try type using val var while with yield then
sql: add all alter and any as asc begin between bigint boolean by cascade case check column commit conflict constraint create cross date
  default delete desc distinct do drop else end exists explain foreign from full function grant group having if in index inner insert int
  integer into is join jsonb key lateral left like limit materialized not nothing null numeric offset on or order outer over partition
  primary recursive references replace returning returns right rollback row select serial set table text then timestamptz to transaction
  trigger truncate union unique update using uuid values varchar view when where with
swift: actor as async await break case catch class continue default defer deinit do else enum extension fileprivate final for func guard
  if import in init inout internal is lazy let mutating nonisolated open override private protocol public repeat return self some static
  struct super switch throw throws try typealias var weak where while
terraform: data for if in locals module output provider resource terraform variable
toml: true false null yes no on off
yaml: true false null yes no on off
zig: and break catch comptime const continue defer else enum error export fn for if inline or orelse pub return struct switch test try
  union unreachable usingnamespace var while
cpp: +c catch class constexpr consteval co_await co_return concept decltype delete explicit export final friend mutable namespace new
  noexcept operator override private protected public requires template this throw try typename using virtual
dart: +javascript abstract as bool double dynamic enum factory final int late mixin num required String
typescript: +javascript abstract any as asserts boolean declare enum implements infer interface is keyof module namespace never number
  object override private protected public readonly satisfies string symbol type unique unknown
`

const words = (text: string): ReadonlyArray<string> => text.split(/\s+/u)

const KEYWORDS = new Map<string, ReadonlySet<string>>()
for (const line of WORDS.trim().split(/\n(?! )/u)) {
  const [name = "", ...own] = words(line)
  KEYWORDS.set(name.slice(0, -1), new Set(own.flatMap((word) => word.startsWith("+") ? [...KEYWORDS.get(word.slice(1)) ?? []] : [word])))
}

const known: Readonly<Record<string, Language>> = Object.fromEntries(
  Object.entries(SHAPES).map(([name, shape]) => [name, { ...shape, keywords: KEYWORDS.get(name) ?? new Set() }])
)

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

const ini: Language = { ...settings, line: ["#", ";"], keywords: KEYWORDS.get("yaml") ?? new Set() }
const INI = new Set(words("ini cfg conf properties env editorconfig gitconfig service"))

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
