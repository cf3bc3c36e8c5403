/**
 * Looks whether each link of our pages to another one, to a file or to a section leads somewhere (`npm run check` does), and whether
 * each section that is cited exists: `docs/decisions/2.1`, `docs/interface.md 4.2`. Addresses of others are left alone:
 * this asks no network. `--in` names another repository.
 */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import path from "node:path"
import { slugOf } from "./slugs.mjs"

const at = process.argv.indexOf("--in")
const root = at === -1 ? path.resolve(import.meta.dirname, "..") : path.resolve(process.argv[at + 1] ?? "")

const pages = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"], { cwd: root, encoding: "utf8" })
  .split("\0").filter((file) => file !== "" && existsSync(path.join(root, file)))

/** What is written as code is no link and no heading; each line stays a line. */
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

/** What is wrong with a link of a page; `undefined`: nothing. */
const troubleOf = (page, link) => {
  if (/^[a-z][a-z0-9+.-]*:/u.test(link)) return undefined
  const [to = "", anchor] = decodeURI(link).split("#")
  const target = to === "" ? page : path.posix.normalize(path.posix.join(path.posix.dirname(page), to))
  if (target.startsWith("..")) return "leads out of the repository"
  if (!existsSync(path.join(root, target))) return `there is no ${target}`
  if (anchor === undefined || !target.endsWith(".md")) return undefined
  return slugsOf(target).has(anchor) ? undefined : `${target} has no section #${anchor}`
}

let count = 0
for (const page of pages) {
  const text = read(page).replaceAll(/(`+)[^\n]*?\1/gu, (code) => "`".repeat(code.length))
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

const texts = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
  cwd: root,
  encoding: "utf8",
  maxBuffer: 2 ** 28
}).split("\0").filter((file) => /\.(?:ts|mjs|js|md)$/u.test(file) && existsSync(path.join(root, file)))

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
