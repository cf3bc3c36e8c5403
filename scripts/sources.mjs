/** Reads the sources of a checkout, for `imports.mjs` and `structure.mjs`: their files, and the files that they import. */
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/gu

/** Folders of a package that are published. */
const PUBLISHED = new Set(["src", "memory", "testing"])

/** The published TypeScript files of all packages, from the root: `packages/domain/src/sandbox/rules/Turn.ts`. */
export const sourcesOf = (root) =>
  readdirSync(path.join(root, "packages")).flatMap((name) =>
    readdirSync(path.join(root, "packages", name)).filter((folder) => PUBLISHED.has(folder)).flatMap((folder) =>
      readdirSync(path.join(root, "packages", name, folder), { recursive: true })
        .filter((file) => file.endsWith(".ts"))
        .map((file) => path.posix.join("packages", name, folder, file))
    )
  ).sort()

/** Returns a function from a file and its text to the files of the checkout that it imports. Throws for a module that is not exported. */
export const importsIn = (root) => {
  const manifests = new Map()
  const exportsOf = (name) => {
    if (!manifests.has(name)) {
      const { exports } = JSON.parse(readFileSync(path.join(root, "packages", name, "package.json"), "utf8"))
      manifests.set(name, Object.entries(exports))
    }
    return manifests.get(name)
  }
  return (file, text) =>
    Array.from(text.matchAll(IMPORT), ([, specifier]) => targetOf(file, specifier, exportsOf)).filter((target) => target !== undefined)
}

/** The file that an import names, from the root of the repository; `undefined` for a module of another project. */
const targetOf = (file, specifier, exportsOf) => {
  if (specifier.startsWith(".")) return path.posix.normalize(path.posix.join(path.posix.dirname(file), specifier))
  const [, name, module = ""] = /^@slipway\/([^/]+)\/?(.*)$/u.exec(specifier) ?? []
  if (name === undefined) return undefined
  // `internal/…` is for tests of other packages: it is not published.
  if (module.startsWith("internal/")) throw new Error(`${file} imports ${specifier}, which is not published`)
  const wanted = module === "" ? "." : `./${module}`
  // As Node resolves them: a name of its own first, then the pattern with the longest text before its `*`.
  const [[pattern, target] = []] = exportsOf(name)
    .filter(([pattern]) => {
      const [before, after] = pattern.split("*")
      return after === undefined ? wanted === pattern : wanted.startsWith(before) && wanted.endsWith(after)
    })
    .sort(([a], [b]) => Number(a.includes("*")) - Number(b.includes("*")) || b.indexOf("*") - a.indexOf("*"))
  if (typeof target === "string") {
    const [before, after = ""] = pattern.split("*")
    return path.posix.join("packages", name, target.replace("*", wanted.slice(before.length, wanted.length - after.length)))
  }
  throw new Error(`${file} imports ${specifier}, which ${name} does not export`)
}

/** The pages of `docs`, in all its folders but `site`, which has copies of them. */
export const pagesOfDocs = (root, folder = "docs") =>
  readdirSync(path.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const name = `${folder}/${entry.name}`
    if (entry.isDirectory()) return name === "docs/site" ? [] : pagesOfDocs(root, name)
    return name.endsWith(".md") ? [name] : []
  }).sort()
