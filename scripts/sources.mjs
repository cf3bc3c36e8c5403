/** Reads the sources of a checkout, for the scripts that check them: packages, their files, and the files that they import. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import path from "node:path"

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/gu

/** Folders of a package that are published. `testing` has helpers for tests of this repository. */
const PUBLISHED = new Set(["src", "memory"])

const isPackage = (root, folder) => existsSync(path.join(root, folder, "package.json"))

/** The folders of all packages, from the root: `packages/domain`, `packages/adapters/postgres`. */
export const packagesOf = (root) =>
  readdirSync(path.join(root, "packages"), { withFileTypes: true }).filter((entry) => entry.isDirectory()).flatMap(({ name }) => {
    const folder = `packages/${name}`
    if (isPackage(root, folder)) return [folder]
    return readdirSync(path.join(root, folder)).map((inner) => `${folder}/${inner}`).filter((inner) => isPackage(root, inner))
  }).sort()

/** The published TypeScript files of all packages, from the root: `packages/domain/src/sandbox/rules/Turn.ts`. */
export const sourcesOf = (root) =>
  packagesOf(root).flatMap((folder) =>
    readdirSync(path.join(root, folder)).filter((place) => PUBLISHED.has(place)).flatMap((place) =>
      readdirSync(path.join(root, folder, place), { recursive: true })
        .filter((file) => file.endsWith(".ts"))
        .map((file) => path.posix.join(folder, place, file))
    )
  ).sort()

/** Returns a function from a file and its text to the files of the checkout that it imports. Throws for a module that is not exported. */
export const importsIn = (root) => {
  const folders = new Map(packagesOf(root).map((folder) => [path.posix.basename(folder), folder]))
  const manifests = new Map()
  /** The folder of a package, and its exports. */
  const packageOf = (name) => {
    if (!manifests.has(name)) {
      const folder = folders.get(name)
      if (folder === undefined) throw new Error(`There is no package ${name}`)
      const { exports } = JSON.parse(readFileSync(path.join(root, folder, "package.json"), "utf8"))
      manifests.set(name, { folder, exports: Object.entries(exports) })
    }
    return manifests.get(name)
  }
  return (file, text) =>
    Array.from(text.matchAll(IMPORT), ([, specifier]) => targetOf(file, specifier, packageOf)).filter((target) => target !== undefined)
}

/** The file that an import names, from the root of the repository; `undefined` for a module of another project. */
const targetOf = (file, specifier, packageOf) => {
  if (specifier.startsWith(".")) return path.posix.normalize(path.posix.join(path.posix.dirname(file), specifier))
  const [, name, module = ""] = /^@slipway\/([^/]+)\/?(.*)$/u.exec(specifier) ?? []
  if (name === undefined) return undefined
  // `internal/…` is for tests of other packages: it is not published.
  if (module.startsWith("internal/")) throw new Error(`${file} imports ${specifier}, which is not published`)
  const wanted = module === "" ? "." : `./${module}`
  const { exports, folder } = packageOf(name)
  // As Node resolves them: a name of its own first, then the pattern with the longest text before its `*`.
  const [[pattern, target] = []] = exports
    .filter(([pattern]) => {
      const [before, after] = pattern.split("*")
      return after === undefined ? wanted === pattern : wanted.startsWith(before) && wanted.endsWith(after)
    })
    .sort(([a], [b]) => Number(a.includes("*")) - Number(b.includes("*")) || b.indexOf("*") - a.indexOf("*"))
  if (typeof target === "string") {
    const [before, after = ""] = pattern.split("*")
    return path.posix.join(folder, target.replace("*", wanted.slice(before.length, wanted.length - after.length)))
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
