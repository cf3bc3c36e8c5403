/**
 * The TypeScript of the pages for people, as programs: every block of ```ts or ```js is type-checked, and run to its end. A word after
 * the language says what else it is: a file name, that it is a module of that name for the page's other blocks; `no-run`, that it only
 * compiles.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { packagesOf, pagesOfDocs } from "./sources.mjs"

const BLOCK = /^```(ts|js)(?: ([^\n]+))?\n([\s\S]*?)^```$/gmu

/** `{ language, mark, source }` of each block, in order. */
export const blocksOf = (page) => Array.from(page.matchAll(BLOCK), ([, language, mark, source]) => ({ language, mark, source }))

/** The pages that may have some: the README files, and those of `docs`. */
const pagesIn = (root) => ["README.md", ...packagesOf(root).map((folder) => `${folder}/README.md`), ...pagesOfDocs(root)]

/** Writes them below `folder`, a folder for each page; answers which to run, from there. */
export const write = async (root, folder) => {
  const programs = []
  for (const page of pagesIn(root)) {
    const place = page.replace(/\.md$/u, "").replaceAll("/", "-")
    for (const [index, { language, mark, source }] of blocksOf(await readFile(path.join(root, page), "utf8")).entries()) {
      const named = mark?.endsWith(`.${language}`)
      if (mark !== undefined && mark !== "no-run" && !named) throw new Error(`${page}: what is \`\`\`${language} ${mark}?`)
      const file = path.join(place, named ? mark : `${index + 1}.${language}`)
      await mkdir(path.join(folder, place), { recursive: true })
      // A module, even where it imports nothing: two blocks of a page may use one name.
      await writeFile(path.join(folder, file), `${source}${/^(import|export) /mu.test(source) ? "" : "export {}\n"}`)
      if (mark === undefined) programs.push(file)
    }
  }
  return programs
}
