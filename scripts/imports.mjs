/**
 * Which folder imports which, as a table: `node scripts/imports.mjs`; `--at COMMIT` shows how it was, `--in FOLDER`
 * another checkout. `npm run check` runs it, and it fails when folders, or packages, import each other in a circle, and for an import
 * from one package to another that `ARROWS` does not list.
 *
 * It fails too when a service of Effect has an id of another package than its own: two of one id would be the same service; and when
 * a folder of the domain imports a later folder of `DOMAIN` or `KINDS`: a port imports no use case.
 *
 * And it fails for a module that runs something when it is imported, unless its name is that of an entry point: `X.main.ts`.
 *
 * A folder is the first level below `src`, with all that is in it; `(root)` is what lies in `src` itself.
 */
import { execFileSync } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { parseArgs } from "node:util"
import { parseSync } from "rolldown/utils"
import { importsIn, packagesOf, sourcesOf } from "./sources.mjs"

/** Folders that are published, and may import no other folder. */
const PLACES = ["src", "memory"]

/** Which adapters an adapter may import, beside the domain. Of the other packages only `slipway` imports adapters: it composes them. */
const ARROWS = {
  agents: [],
  docker: ["machine"],
  "embedded-postgres": [],
  forgejo: ["rest-host"],
  gateway: ["machine"],
  git: ["machine"],
  github: [],
  gitlab: ["rest-host"],
  kubernetes: ["machine", "runner"],
  "local-source": ["git", "postgres"],
  machine: [],
  oidc: ["machine"],
  postgres: [],
  "rest-host": [],
  runner: ["git", "machine"],
  "worker-link": ["machine", "postgres"]
}

/** The folder of the package of a file: `packages/domain`, `packages/adapters/postgres`. */
const packageOf = (file) => /^packages\/(?:adapters\/)?[^/]+(?=\/)/u.exec(file)?.[0] ?? ""

/** `domain/sandbox` of `packages/domain/src/sandbox/X.ts`, `domain/memory` of `packages/domain/memory/X.ts`. */
const folderOf = (file) => {
  const folder = packageOf(file)
  const name = path.posix.basename(folder)
  const [place, ...rest] = file.slice(folder.length + 1).split("/")
  if (!PLACES.includes(place)) return undefined
  return place === "src" ? `${name}/${rest.length > 1 ? rest[0] : "(root)"}` : `${name}/${place}`
}

/** Folders of the domain: each imports only those before it. */
const DOMAIN = [
  "text",
  "ids",
  "time",
  "store",
  "observability",
  "source",
  "access",
  "environment",
  "models",
  "mcp",
  "sandbox",
  "files",
  "partner",
  "publishing",
  "automation",
  "promise"
]
/** Folders in those: each imports only those before it, of its own folder and of others. */
const KINDS = ["schema", "rules", "ports", "usecases", "kit"]

/** Why a file of the domain may not import another one; `undefined`: it may. */
const backwards = (file, target) => {
  const [folder, kind] = placeIn(file)
  const [other, otherKind] = placeIn(target)
  if (!DOMAIN.includes(folder) || !DOMAIN.includes(other)) return undefined
  if (DOMAIN.indexOf(other) > DOMAIN.indexOf(folder)) return `${folder} comes before ${other}`
  if (kind === undefined || otherKind === undefined || other !== folder && kind !== "ports") return undefined
  return KINDS.indexOf(otherKind) > KINDS.indexOf(kind) ? `${kind} come before ${otherKind}` : undefined
}

/** `["sandbox", "ports"]` of `packages/domain/src/sandbox/ports/X.ts`. */
const placeIn = (file) => {
  const [folder, kind] = /^packages\/domain\/src\/(.*)$/u.exec(file)?.[1].split("/") ?? []
  return [folder?.endsWith(".ts") ? undefined : folder, KINDS.includes(kind) ? kind : undefined]
}

/** Whether importing the module runs something: a try, an await or a call at its top level, except on a value of the module itself. */
const runsOnImport = ({ body }) => {
  const own = new Set(body.flatMap(({ declarations = [] }) => declarations.map(({ id }) => id.name)))
  const rootOf = (node) => {
    const next = node.expression ?? node.callee ?? node.object
    return next === undefined || next === null || typeof next !== "object" ? node : rootOf(next)
  }
  return body.some((statement) =>
    statement.type === "TryStatement" ||
    statement.type === "ExpressionStatement" && typeof statement.directive !== "string" && !own.has(rootOf(statement).name) ||
    statement.declarations?.some(({ init }) => init?.type === "AwaitExpression") === true
  )
}

/** Modules that run something when they are imported, and are not named as entry points. */
const wrongEntriesAt = (root) =>
  sourcesOf(root).filter((file) =>
    folderOf(file) !== undefined && !/[./]main\.ts$/u.test(file) &&
    runsOnImport(parseSync(file, readFileSync(path.join(root, file), "utf8")).program)
  )

const SERVICE = />\(\)\(\s*"([^"]*\/[^"]*)"/gu

/** How many imports lead from one folder to another. */
const edgesAt = (root) => {
  const importsOf = importsIn(root)
  const edges = new Map()
  for (const file of sourcesOf(root)) {
    const from = folderOf(file)
    const name = path.posix.basename(packageOf(file))
    const text = readFileSync(path.join(root, file), "utf8")
    const owner = name === "slipway" ? "slipway/" : `@slipway/${name}/`
    for (const [, id] of text.matchAll(SERVICE)) {
      if (!id.startsWith(owner)) throw new Error(`${file} has a service with the id ${id}, which does not begin with ${owner}`)
    }
    for (const target of importsOf(file, text)) {
      const reason = backwards(file, target)
      if (reason !== undefined) throw new Error(`${file} imports ${target}: ${reason}`)
      const to = folderOf(target)
      if (to === undefined || to === from) continue
      const of = edges.get(from) ?? edges.set(from, new Map()).get(from)
      of.set(to, (of.get(to) ?? 0) + 1)
    }
  }
  return edges
}

/** A way that leads back to where it began, in the order of its imports; `undefined`: there is none. */
const circleIn = (edges) => {
  const done = new Set()
  const walk = (node, way) => {
    if (way.includes(node)) return [...way.slice(way.indexOf(node)), node]
    if (done.has(node)) return undefined
    for (const next of edges.get(node)?.keys() ?? []) {
      const circle = walk(next, [...way, node])
      if (circle !== undefined) return circle
    }
    done.add(node)
    return undefined
  }
  for (const node of edges.keys()) {
    const circle = walk(node, [])
    if (circle !== undefined) return circle
  }
  return undefined
}

/** A sentence if `from` may not import `to`; `undefined`: it may. */
const forbidden = (from, to) => {
  if (!(to in ARROWS) || from === "slipway" || ARROWS[from]?.includes(to)) return undefined
  return from in ARROWS
    ? `${from} imports ${to}, which is not in ARROWS of scripts/imports.mjs`
    : `${from} imports the adapter ${to}: only slipway composes adapters`
}

/** Modules that the deprecated `@slipway/adapters` exports and that are not there. */
const missingModules = (root) => {
  const list = "packages/adapters/all/modules.json"
  if (!existsSync(path.join(root, list))) return []
  const importsOf = importsIn(root)
  return Object.values(JSON.parse(readFileSync(path.join(root, list), "utf8")))
    .filter((module) => importsOf(list, `from "${module}"`).some((file) => !existsSync(path.join(root, file))))
    .map((module) => `${list} names ${module}, which is not there`)
}

/** The imports between packages. */
const ofPackages = (edges) => {
  const between = new Map()
  for (const [from, tos] of edges) {
    for (const [to, count] of tos) {
      const [a] = from.split("/")
      const [b] = to.split("/")
      if (a === b) continue
      const of = between.get(a) ?? between.set(a, new Map()).get(a)
      of.set(b, (of.get(b) ?? 0) + count)
    }
  }
  return between
}

const lines = (edges) => {
  const byName = ([a], [b]) => a.localeCompare(b)
  const width = Math.max(...Array.from(edges.keys(), (name) => name.length))
  return [...edges].sort(byName).map(([from, tos]) =>
    `${from.padEnd(width)}  imports  ${[...tos].sort(byName).map(([to, count]) => `${to} ${count}`).join(", ")}`
  )
}

const { values } = parseArgs({ options: { at: { type: "string" }, in: { type: "string" } } })
const repository = path.resolve(values.in ?? path.join(import.meta.dirname, ".."))
const root = values.at === undefined ? repository : mkdtempSync(path.join(tmpdir(), "slipway-imports-"))
try {
  if (values.at !== undefined) {
    const archive = execFileSync("git", ["archive", values.at, "packages"], { cwd: repository, maxBuffer: 2 ** 28 })
    execFileSync("tar", ["-x", "-C", root], { input: archive })
  }
  const edges = edgesAt(root)
  const packages = ofPackages(edges)
  process.stdout.write(`${[...lines(packages), "", ...lines(edges)].join("\n")}\n`)
  const fail = (sentence) => {
    process.stderr.write(`${sentence}\n`)
    process.exitCode = 1
  }
  for (const folder of packagesOf(root)) {
    const name = path.posix.basename(folder)
    if (folder.startsWith("packages/adapters/") && name !== "all" && !(name in ARROWS)) {
      fail(`${name} is not in ARROWS of scripts/imports.mjs`)
    }
  }
  missingModules(root).forEach(fail)
  if (values.at === undefined) {
    for (const file of wrongEntriesAt(root)) fail(`${file} runs something when it is imported: name it ${file.slice(0, -3)}.main.ts`)
  }
  for (const [from, tos] of packages) {
    for (const to of tos.keys()) if (forbidden(from, to) !== undefined) fail(forbidden(from, to))
  }
  for (const circle of [circleIn(packages), circleIn(edges)]) {
    if (circle === undefined) continue
    fail(`a circle: ${circle.join(" → ")}`)
  }
} finally {
  if (root !== repository) rmSync(root, { recursive: true, force: true })
}
