/**
 * Exports that no other file uses: `node scripts/exports.mjs`. `npm run check` runs it, and fails for one. Drop the word `export` where
 * the own file uses the name, and delete the rest.
 *
 * Modules of `api`, `client`, `conformance`, `domain`, `testing`, and of `promise` and `testing` in `worker`, are for other programs too,
 * and are not checked. Neither are types of `adapters` and `http`, which their users may name, and classes: errors are caught by their
 * tags.
 */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import path from "node:path"
import { parseArgs } from "node:util"
import { parseSync } from "rolldown/utils"
import { importsIn, sourcesOf } from "./sources.mjs"

const FOR_OTHERS = /^packages\/(?:api|client|conformance|domain|testing|worker\/src\/(?:promise|testing))\//u
const PUBLISHED = /^packages\/(?:adapters|http)\//u

/** Files that may import: tracked ones, and new ones that git does not ignore. */
const filesOf = (root) =>
  execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.ts", "*.mts", "*.mjs", "*.js"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 2 ** 28
  }).split("\0").filter((file) => file !== "" && existsSync(path.join(root, file)))

/** The names that a file uses of a module that it imports as `name`; `*`: it may use all. */
const membersOf = (name, text) => {
  const uses = Array.from(
    text.matchAll(new RegExp(String.raw`(?<![\w$])(?<!(?<!\.\.)\.)${name}\b(?:\.(\w+))?`, "gu")),
    ([, member]) => member ?? "*"
  )
  // The import itself is a use without a member.
  uses.splice(uses.indexOf("*"), 1)
  return uses
}

/** The imports of a file: `[module, names]`. */
const usesIn = (file, text) => [
  ...parseSync(file, text).program.body.flatMap(({ source, specifiers, type }) => {
    if (source === undefined || source === null) return []
    if (type === "ExportAllDeclaration") return [[source.value, ["*"]]]
    return [[
      source.value,
      specifiers.flatMap((one) =>
        one.type === "ImportNamespaceSpecifier" ? membersOf(one.local.name, text) : [(one.imported ?? one.local).name]
      )
    ]]
  }),
  ...Array.from(text.matchAll(/\bimport\s*\(\s*"([^"]+)"/gu), ([, module]) => [module, ["*"]])
]

/** The imported file; `undefined`: it is of no package here. Folders of examples have packages of their own. */
const targetOf = (importsOf, file, module) => {
  try {
    return importsOf(file, `from "${module}"`)[0]
  } catch {
    return undefined
  }
}

const exportsIn = (file, text) =>
  parseSync(file, text).program.body.flatMap(({ declaration, exportKind, type }) => {
    if (type !== "ExportNamedDeclaration" || declaration === null || declaration.type === "ClassDeclaration") return []
    if (exportKind === "type" && PUBLISHED.test(file)) return []
    return (declaration.declarations ?? [declaration]).flatMap(({ id }) => id?.type === "Identifier" ? [id.name] : [])
  })

/** The unused exports of each file. */
export const unusedExports = (root) => {
  const importsOf = importsIn(root)
  const read = (file) => readFileSync(path.join(root, file), "utf8")
  const used = new Map()
  for (const file of filesOf(root)) {
    for (const [module, names] of usesIn(file, read(file))) {
      const target = targetOf(importsOf, file, module)
      if (target === undefined || target === file) continue
      const known = used.get(target) ?? used.set(target, new Set()).get(target)
      for (const name of names) known.add(name)
    }
  }
  return sourcesOf(root).filter((file) => !FOR_OTHERS.test(file)).map((file) => {
    const known = used.get(file) ?? new Set()
    return [file, known.has("*") ? [] : [...new Set(exportsIn(file, read(file)))].filter((name) => !known.has(name))]
  }).filter(([, names]) => names.length > 0)
}

const isMain = process.argv[1] !== undefined && path.resolve(process.argv[1]) === import.meta.filename
if (isMain) {
  const { values } = parseArgs({ options: { in: { type: "string" } } })
  const root = path.resolve(values.in ?? path.join(import.meta.dirname, ".."))
  for (const [file, names] of unusedExports(root)) {
    process.stderr.write(`${file}: no other file uses ${names.join(", ")}\n`)
    process.exitCode = 1
  }
}
