/**
 * Checks the pages (`npm run check` does): each link to another page, a file or a section leads somewhere, each section that pages or code
 * cite exists (`docs/decisions/2.1`, `docs/interface.md 4.2`), and so does each file of the checkout that a page names. Addresses of other
 * hosts are left alone: this uses no network. Each name of `docs/rules.md` has to be in the module that it links to; `--write` follows a
 * module that has moved. `--in` names another repository.
 */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { slugOf } from "./slugs.mjs"

const at = process.argv.indexOf("--in")
const root = at === -1 ? path.resolve(import.meta.dirname, "..") : path.resolve(process.argv[at + 1] ?? "")

/** Files of the checkout, also new ones. */
const filesOf = (...patterns) =>
  execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard", ...patterns], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 2 ** 28
  }).split("\0").filter((file) => file !== "" && existsSync(path.join(root, file)))

const pages = filesOf("*.md")

/** In `docs/rules.md` the text of a link to a module is a name, and the module has to declare it. */
const RULES = "docs/rules.md"
const NAME = /\[`([^`\]]+)`\]\(([^)\s]+\.ts)\)/gu
const declares = (text, name) =>
  new RegExp(String.raw`\b(?:const|function\*?|class|interface|type|FUNCTION) ${name}\b|^\s*${name}: `, "mu").test(text)

if (pages.includes(RULES)) {
  const text = readFileSync(path.join(root, RULES), "utf8")
  /** The module that has the name now: one with the same file name, or else the only one. */
  const moduleOf = (name, was) => {
    const modules = filesOf("*.ts").filter((file) => !/\/test\//u.test(file) && declares(readFileSync(path.join(root, file), "utf8"), name))
    const same = modules.filter((file) => path.basename(file) === path.basename(was))
    return same.length === 1 ? same[0] : modules.length === 1 ? modules[0] : undefined
  }
  const next = text.replaceAll(NAME, (link, name, to, index) => {
    const file = path.posix.join(path.posix.dirname(RULES), to)
    if (existsSync(path.join(root, file)) && declares(readFileSync(path.join(root, file), "utf8"), name)) return link
    const found = process.argv.includes("--write") ? moduleOf(name, file) : undefined
    if (found !== undefined) return `[\`${name}\`](${path.posix.relative(path.posix.dirname(RULES), found)})`
    process.stderr.write(`${RULES}:${text.slice(0, index).split("\n").length}: ${file} does not declare ${name}; --write follows it\n`)
    process.exitCode = 1
    return link
  })
  if (next !== text) writeFileSync(path.join(root, RULES), next)
}

/** Without code blocks, which have neither links nor headings. Line numbers stay. */
const withoutBlocks = (text) => text.replaceAll(/^ *(```|~~~)[\s\S]*?^ *\1$/gmu, (block) => block.replaceAll(/[^\n]/gu, ""))

const read = (file) => withoutBlocks(readFileSync(path.join(root, file), "utf8"))

const slugs = new Map()
const slugsOf = (page) => {
  if (slugs.has(page)) return slugs.get(page)
  const found = new Map()
  for (const [, heading] of read(page).matchAll(/^#{1,6} +(.+?)(?: +#+)?$/gmu)) {
    const slug = slugOf(heading)
    const times = found.get(slug) ?? 0
    found.set(slug, times + 1)
    if (times > 0) found.set(`${slug}-${times}`, 1)
  }
  slugs.set(page, found)
  return found
}

const LINK = /\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)|^ *\[[^\]]+\]: +(\S+)/gmu

/** The error of a link of a page; `undefined`: none. */
const troubleOf = (page, link) => {
  if (/^[a-z][a-z0-9+.-]*:/u.test(link)) return undefined
  const [to = "", anchor] = decodeURI(link).split("#")
  const target = to === "" ? page : path.posix.normalize(path.posix.join(path.posix.dirname(page), to))
  if (target.startsWith("..")) return "leads out of the repository"
  if (!existsSync(path.join(root, target))) return `there is no ${target}`
  if (anchor === undefined || !target.endsWith(".md")) return undefined
  return slugsOf(target).has(anchor) ? undefined : `${target} has no section #${anchor}`
}

/** A file or folder of the checkout that a page names as code. */
const FILE = /(?<!`)`((?:packages|scripts|deploy|examples|clients)\/[\w./-]+)`(?!`)/gu
/** Made by tests and builds. */
const NOT_TRACKED = /\/(?:test-output|dist)(?:\/|$)/u
/** Pages that say what was, of files that may have moved since. */
const HISTORY = /CHANGELOG\.md$|^\.changeset\//u

let count = 0
for (const page of pages) {
  const written = read(page)
  for (const { 1: file, index } of written.matchAll(FILE)) {
    if (existsSync(path.join(root, file)) || NOT_TRACKED.test(file) || HISTORY.test(page)) continue
    process.stderr.write(`${page}:${written.slice(0, index).split("\n").length}: there is no ${file}\n`)
    process.exitCode = 1
  }
  const text = written.replaceAll(/(`+)[^\n]*?\1/gu, (code) => "`".repeat(code.length))
  for (const { 1: inline, 2: reference, index } of text.matchAll(LINK)) {
    count++
    const trouble = troubleOf(page, inline ?? reference)
    if (trouble === undefined) continue
    process.stderr.write(`${page}:${text.slice(0, index).split("\n").length}: ${trouble}\n`)
    process.exitCode = 1
  }
}

/** Numbers of the sections that are cited, by what a citation begins with. */
const sections = new Map([["docs/decisions/", new Set()], ["docs/interface.md ", new Set()]])
for (const page of pages) {
  const cited = sections.get(page.startsWith("docs/decisions/") ? "docs/decisions/" : `${page} `)
  if (cited === undefined) continue
  for (const [, number] of read(page).matchAll(/^#+ (\d+(?:\.\d+[a-z]?)?)\.? /gmu)) cited.add(number)
}

const texts = filesOf("*.ts", "*.mjs", "*.js", "*.md")

const NUMBER = String.raw`\d+(?:\.\d+[a-z]?)?`
/** With the numbers that follow: `docs/decisions/2.2 and 3`, `docs/interface.md 4.10, 4.11`. A comment may break the line between them. */
const CITATION = new RegExp(
  String.raw`(docs/(?:decisions/|[\w-]+\.md(?=\s)))[\s*]*(${NUMBER}(?:(?:,| and)[\s*]+${NUMBER}\b)*)(?![-\w])`,
  "gu"
)

let citations = 0
for (const file of texts) {
  const text = readFileSync(path.join(root, file), "utf8")
  for (const { 1: start, 2: numbers, index } of text.matchAll(CITATION)) {
    const known = sections.get(start.endsWith("/") ? start : `${start} `)
    for (const [number] of numbers.matchAll(new RegExp(NUMBER, "gu"))) {
      citations++
      if (known?.has(number)) continue
      process.stderr.write(`${file}:${text.slice(0, index).split("\n").length}: ${start} has no section ${number}\n`)
      process.exitCode = 1
    }
  }
}
process.stdout.write(`${count} links of ${pages.length} pages, ${citations} citations of sections\n`)
