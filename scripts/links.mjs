/**
 * Looks whether each link of our pages to another one, to a file or to a section leads somewhere (`npm run check` does). Addresses of
 * others are left alone: this asks no network. `--in` names another repository.
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
process.stdout.write(`${count} links of ${pages.length} pages\n`)
