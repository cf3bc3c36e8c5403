/** Looks whether each link of the built site leads to a page of it, and to a section that is there. */
import { existsSync, globSync, readFileSync } from "node:fs"
import path from "node:path"

const dist = path.join(import.meta.dirname, ".vitepress/dist")
const pages = globSync("**/*.html", { cwd: dist })
const textOf = (page) => readFileSync(path.join(dist, page), "utf8")

let count = 0
for (const page of pages) {
  for (const [, href] of textOf(page).matchAll(/<a [^>]*?href="([^"]+)"/gu)) {
    if (/^[a-z]+:/u.test(href)) continue
    count++
    const [to = "", anchor = ""] = decodeURI(href).split("#")
    const target = path.posix.join("/", to === "" ? page : to.startsWith("/") ? to : path.posix.join(path.posix.dirname(page), to))
    const file = (target.endsWith("/") ? `${target}index.html` : target).slice(1)
    const there = existsSync(path.join(dist, file))
    if (there && (anchor === "" || textOf(file).includes(` id="${anchor}"`))) continue
    process.stderr.write(`${page}: ${href} ${there ? "names no section there" : "leads nowhere"}\n`)
    process.exitCode = 1
  }
}
process.stdout.write(`${count} links of ${pages.length} pages of the site\n`)
