/**
 * Measures how easy the sources are to find one's way in, and fails where a number is above its limit: `node scripts/structure.mjs`.
 *
 * - circles: folders of the same level that import each other, at any depth; files in the parent folder itself count as one more folder
 * - folders: source files in one folder
 * - functions: lines of a function's body, from brace to brace, with the functions in it
 * - docstrings: exports of packages for other programs that have no docstring
 * - words: phrases of private English in comments, strings and docs
 *
 * What is above its limit today is listed in `structure.json` with its number. A number there may only fall: `--write` lowers numbers,
 * removes entries that are done, and follows entries whose file or folder has moved. It never raises a number. `--all` prints the
 * list, longest first. After a conflict in `structure.json` take either side and run `--write`.
 */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { parseArgs } from "node:util"
import { parseSync, Visitor } from "rolldown/utils"
import { importsIn, sourcesOf } from "./sources.mjs"

const MOST_FILES = 20
const MOST_LINES = 100

export const WORDS = {
  nobody: /\bnobody\b/giu,
  whoever: /\bwhoever\b/giu,
  "one that": /\bone that\b/giu,
  // "there is none" is plain English.
  "is none": /(?<!\bthere )\bis none\b/giu
}
/** First words of a comment, and of a heading. */
const BEGINNINGS = { "Of …": /^Of\b/u, "Who …": /^Who\b/u, "What …": /^What\b/u }

const increase = (counts, key, by = 1) => counts.set(key, (counts.get(key) ?? 0) + by)

// Circles

/** Folders that reach each other by imports: each with all the others of its circle. */
const circlesIn = (edges) => {
  const reached = new Map(Array.from(edges.keys(), (from) => {
    const seen = new Set()
    const next = [from]
    for (const node of next) {
      for (const to of edges.get(node) ?? []) {
        if (!seen.has(to)) {
          seen.add(to)
          next.push(to)
        }
      }
    }
    return [from, seen]
  }))
  return Array.from(reached.keys()).filter((node) => reached.get(node).has(node))
}

/** By parent folder: the names of its folders that are in a circle. */
const circlesOf = (imports) => {
  const levels = new Map()
  for (const [from, to] of imports) {
    const a = from.split("/")
    const b = to.split("/")
    const depth = a.findIndex((name, index) => name !== b[index])
    // Files of one folder may import each other.
    if (depth === -1 || depth === a.length - 1 && depth === b.length - 1) continue
    const parent = a.slice(0, depth).join("/")
    const nameIn = (parts) => depth === parts.length - 1 ? "(files)" : parts[depth]
    const edges = levels.get(parent) ?? levels.set(parent, new Map()).get(parent)
    const of = edges.get(nameIn(a)) ?? edges.set(nameIn(a), new Set()).get(nameIn(a))
    of.add(nameIn(b))
  }
  return Array.from(levels, ([parent, edges]) => [parent, circlesIn(edges).sort()]).filter(([, names]) => names.length > 0)
}

// Functions

const FUNCTIONS = ["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]

/** Where names of functions come from: the variable, property, member, assignment or declaration around them. */
const nameOf = (node) => {
  const named = node.id ?? (node.computed ? undefined : node.key)
  return named?.name ?? (typeof named?.value === "string" ? named.value : undefined)
}

/** A file's long functions by name: `layer`, `layer.create`. Functions without a name have that of what they are in. */
const functionsIn = (program, lineAt) => {
  const found = new Map()
  const names = []
  const enter = (node) => {
    if (nameOf(node) !== undefined) names.push(nameOf(node))
    if (!FUNCTIONS.includes(node.type) || node.body === null) return
    const lines = lineAt(node.body.end) - lineAt(node.body.start) + 1
    const name = names.join(".") || "(no name)"
    if (lines > MOST_LINES) found.set(name, Math.max(lines, found.get(name) ?? 0))
  }
  const exit = (node) => {
    if (nameOf(node) !== undefined) names.pop()
  }
  const types = [...FUNCTIONS, "VariableDeclarator", "Property", "PropertyDefinition", "MethodDefinition", "ClassDeclaration"]
  new Visitor(Object.fromEntries(types.flatMap((type) => [[type, enter], [`${type}:exit`, exit]]))).visit(program)
  return found
}

// Docstrings

/** The folders whose exports are for other programs. */
const PUBLIC = /^packages\/(?:(?:api|client|conformance)\/src|domain\/(?:memory|src))\//u

/** The names of a file's exports without a docstring. A type and a value of the same name need one docstring. */
const undocumentedIn = (program, comments, source) => {
  const ends = comments.filter(({ type, value }) => type === "Block" && value.startsWith("*")).map(({ end }) => end)
  const documented = new Map()
  for (const { declaration, start, type } of program.body) {
    if (type !== "ExportNamedDeclaration" || declaration === null) continue
    const isDocumented = ends.some((end) => end <= start && source.slice(end, start).trim() === "")
    for (const { id: { name } } of declaration.declarations ?? [declaration]) {
      documented.set(name, isDocumented || documented.get(name) === true)
    }
  }
  return Array.from(documented.keys()).filter((name) => !documented.get(name))
}

// Words

/** Comments of a file as text: line comments that follow each other are one comment. */
const commentsIn = (comments, source) => {
  const texts = []
  let end = -1
  for (const { end: commentEnd, start, type, value } of comments) {
    const text = value.replaceAll(/^\s*\*+/gmu, "").replaceAll(/\s+/gu, " ").trim()
    const isAlone = source.slice(source.lastIndexOf("\n", start) + 1, start).trim() === ""
    if (type === "Line" && isAlone && end !== -1 && /^\n[ \t]*$/u.test(source.slice(end, start))) texts.push(`${texts.pop()} ${text}`)
    else texts.push(text)
    end = type === "Line" && isAlone ? commentEnd : -1
  }
  return texts
}

const stringsIn = (program) => {
  const texts = []
  new Visitor({
    Literal: ({ value }) => {
      if (typeof value === "string") texts.push(value)
    },
    TemplateElement: ({ value }) => texts.push(value.raw)
  }).visit(program)
  return texts
}

const countWords = (counts, texts) => {
  for (const text of texts) {
    for (const [word, pattern] of Object.entries(WORDS)) {
      const number = text.replaceAll(/\s+/gu, " ").match(pattern)?.length ?? 0
      if (number > 0) increase(counts, word, number)
    }
  }
}

const countBeginnings = (counts, texts) => {
  for (const text of texts) for (const [word, pattern] of Object.entries(BEGINNINGS)) if (pattern.test(text)) increase(counts, word)
}

/** Folders that count as one row with the files of the root. */
const WITH_ROOT = new Set(["docs", "deploy", "examples", "clients", ".changeset"])
/** Tracked files and new ones that git does not ignore. */
const filesOf = (root) =>
  execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md", "*.ts", "*.mjs", "*.js"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 2 ** 28
  }).split("\0").filter((file) => file !== "" && existsSync(path.join(root, file)))

/** The row of a file in the table of words: package and kind. */
const rowOf = (file, sources) => {
  const [top, name] = file.split("/")
  const owner = top === "packages" ? name : WITH_ROOT.has(top) || !file.includes("/") ? "(root)" : top
  if (file.endsWith(".md")) return `${owner} docs`
  if (!/\.(?:ts|mjs|js)$/u.test(file) || !["packages", "scripts", "examples", "bench"].includes(top)) return undefined
  return sources.has(file) || file.startsWith(`packages/${name}/src/`) || top === "scripts" && !file.startsWith("scripts/test/")
    ? `${owner} src`
    : `${owner} tests`
}

const lineCounter = (source) => {
  const starts = [0]
  for (let at = source.indexOf("\n"); at !== -1; at = source.indexOf("\n", at + 1)) starts.push(at + 1)
  return (position) => {
    let low = 0
    let high = starts.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (starts[middle] <= position) low = middle
      else high = middle
    }
    return low
  }
}

/** All numbers of the checkout at `root` that are above their limit, by check and name. */
export const measure = (root) => {
  const sources = new Set(sourcesOf(root))
  const importsOf = importsIn(root)
  const imports = []
  const folders = new Map()
  const functions = new Map()
  const docstrings = new Map()
  const words = new Map()
  for (const file of sources) {
    for (const target of importsOf(file, readFileSync(path.join(root, file), "utf8"))) imports.push([file, target])
    increase(folders, path.posix.dirname(file))
  }
  for (const file of filesOf(root)) {
    const row = rowOf(file, sources)
    if (row === undefined) continue
    const counts = new Map()
    const source = readFileSync(path.join(root, file), "utf8")
    if (file.endsWith(".md")) {
      countWords(counts, [source])
      countBeginnings(counts, source.split("\n").filter((line) => /^#+ /u.test(line)).map((line) => line.replace(/^#+ /u, "")))
    } else {
      const { comments, program } = parseSync(file, source)
      const texts = commentsIn(comments, source)
      countWords(counts, [...texts, ...stringsIn(program)])
      countBeginnings(counts, texts)
      if (sources.has(file)) {
        for (const [name, lines] of functionsIn(program, lineCounter(source))) functions.set(`${file} ${name}`, lines)
        if (PUBLIC.test(file)) { for (const name of undocumentedIn(program, comments, source)) docstrings.set(`${file} ${name}`, 1) }
      }
    }
    for (const [word, number] of counts) increase(words, `${row}: ${word}`, number)
  }
  const circles = circlesOf(imports)
  return {
    circles: new Map(circles.map(([parent, names]) => [parent, names.length])),
    folders: new Map([...folders].filter(([, number]) => number > MOST_FILES)),
    functions,
    docstrings,
    words,
    circleNames: new Map(circles)
  }
}

// Allowed numbers

/** The part of a listed name that stays the same when its file or folder moves. */
const LAST_PART = { circles: /[^/]+$/u, folders: /[^/]+$/u, functions: /[^ .]+$/u, docstrings: /[^ ]+$/u, words: /: .*/u }

/**
 * Compares numbers with those allowed. An unlisted entry may take the place of a listed entry that is gone, if it is not larger:
 * it has moved. A row of words of a new package may take what other rows of the same kind and word lost.
 */
export const compare = (check, measured, allowed) => {
  const listed = new Map(Object.entries(allowed))
  const lowered = new Map()
  const above = []
  const fresh = []
  for (const [name, number] of measured) {
    if (!listed.has(name)) fresh.push([name, number])
    else if (number > listed.get(name)) {
      above.push({ name, number, limit: listed.get(name) })
      lowered.set(name, listed.get(name))
    } else lowered.set(name, number)
  }
  if (check === "words") {
    const kindOf = (name) => name.slice(name.indexOf(" "))
    const lost = new Map()
    for (const [name, number] of listed) increase(lost, kindOf(name), number - Math.min(number, measured.get(name) ?? 0))
    const packages = new Set(Array.from(listed.keys(), (name) => name.split(" ")[0]))
    for (const [name, number] of fresh) {
      const limit = packages.has(name.split(" ")[0]) ? 0 : lost.get(kindOf(name)) ?? 0
      if (number > limit) above.push({ name, number, limit })
      else {
        lowered.set(name, number)
        increase(lost, kindOf(name), -number)
      }
    }
    return { above, lowered }
  }
  const gone = new Map([...listed].filter(([name]) => !measured.has(name)))
  const same = (a, b) => LAST_PART[check].exec(a)?.[0] === LAST_PART[check].exec(b)?.[0]
  for (const [name, number] of fresh.sort(([, a], [, b]) => b - a)) {
    const [from] = [...gone].filter(([, limit]) => limit >= number)
      .sort(([a, m], [b, n]) => Number(same(b, name)) - Number(same(a, name)) || m - n)
    if (from === undefined) above.push({ name, number, limit: 0 })
    else {
      gone.delete(from[0])
      lowered.set(name, number)
    }
  }
  return { above, lowered }
}

const CHECKS = {
  circles: { title: "folders in circles of imports", unit: "folders in a circle of imports", limit: 0 },
  folders: { title: `folders with more than ${MOST_FILES} source files`, unit: "source files", limit: MOST_FILES },
  functions: { title: `functions with more than ${MOST_LINES} lines`, unit: "lines", limit: MOST_LINES },
  docstrings: { title: "exports without a docstring", unit: "exports without a docstring", limit: 0 },
  words: { title: "counted words", unit: "uses", limit: 0 }
}

const sum = (numbers) => Array.from(numbers.values()).reduce((a, b) => a + b, 0)

/** The line that `npm run check` prints. */
const summaryOf = (check, numbers) => {
  const { title } = CHECKS[check]
  const most = Math.max(0, ...numbers.values())
  return ["circles", "docstrings", "words"].includes(check)
    ? `${title}: ${sum(numbers)}`
    : `${title}: ${numbers.size}${numbers.size > 0 ? `, at most ${most}` : ""}`
}

const isMain = process.argv[1] !== undefined && path.resolve(process.argv[1]) === import.meta.filename
if (isMain) {
  const { values } = parseArgs({
    options: { all: { type: "boolean" }, in: { type: "string" }, write: { type: "boolean" } }
  })
  const root = path.resolve(values.in ?? path.join(import.meta.dirname, ".."))
  const list = path.join(root, "scripts", "structure.json")
  const allowed = JSON.parse(readFileSync(list, "utf8"))
  const measured = measure(root)
  const lowered = {}
  const output = []
  for (const check of Object.keys(CHECKS)) {
    const result = compare(check, measured[check], allowed[check] ?? {})
    lowered[check] = Object.fromEntries([...result.lowered].sort(([a], [b]) => a < b ? -1 : 1))
    output.push(summaryOf(check, measured[check]))
    const labelOf = (name) => check === "circles" ? `${name} (${measured.circleNames.get(name).join(", ")})` : name
    if (values.all === true) {
      const sorted = [...measured[check]].sort(([, a], [, b]) => b - a)
      for (const [name, number] of sorted) output.push(`${`${number}`.padStart(6)}  ${labelOf(name)}`)
    }
    for (const { limit, name, number } of result.above) {
      const allowedNumber = Math.max(limit, CHECKS[check].limit)
      process.stderr.write(`${labelOf(name)}: ${number} ${CHECKS[check].unit}, and ${allowedNumber} is the limit\n`)
      process.exitCode = 1
    }
  }
  if (values.write === true) writeFileSync(list, `${JSON.stringify(lowered, null, 2)}\n`)
  process.stdout.write(`${output.join("\n")}\n`)
}
