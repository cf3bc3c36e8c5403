/**
 * Packs, then lets publint and "are the types wrong?" look at each tarball, every module of it: `npm run pack:check`, or
 * `npm run pack:check -- FOLDER` to keep what was packed.
 */
import { execFile } from "node:child_process"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { promisify } from "node:util"

const execute = promisify(execFile)
const run = (command, args) => execute(command, args, { maxBuffer: 64 * 1024 * 1024 })

/** The modules that a consumer may import: the package's `exports`, and where they have a `*`, each file that fits. */
const modulesOf = async (tarball) => {
  const files = (await run("tar", ["-tzf", tarball])).stdout.split("\n").map((file) => file.replace(/^package/u, "."))
  const { exports } = JSON.parse((await run("tar", ["-xzOf", tarball, "package/package.json"])).stdout)
  const takenOut = Object.keys(exports).filter((name) => exports[name] === null)
  const isTakenOut = (name) =>
    exports[name] === undefined && takenOut.some((pattern) => pattern.endsWith("*") && name.startsWith(pattern.slice(0, -1))) ||
    exports[name] === null
  return Object.entries(exports).flatMap(([name, target]) => {
    if (!target?.endsWith(".js")) return []
    if (!name.includes("*")) return [name]
    const [before, after] = target.split("*")
    return files.filter((file) => file.startsWith(before) && file.endsWith(after))
      .map((file) => name.replace("*", file.slice(before.length, -after.length)))
      .filter((module) => !isTakenOut(module))
  })
}

const kept = process.argv[2]
const folder = kept ?? await mkdtemp(path.join(tmpdir(), "slipway-pack-check-"))
try {
  await run(process.execPath, [path.join(import.meta.dirname, "pack.mjs"), folder])
  for (const file of await readdir(folder)) {
    const tarball = path.join(folder, file)
    const modules = await modulesOf(tarball)
    await run("npx", ["--yes", "publint@0.3.25", tarball, "--strict"])
    await run("npx", [
      "--yes",
      "--package=@arethetypeswrong/cli@0.18.5",
      "attw",
      tarball,
      "--profile",
      "esm-only",
      "--entrypoints",
      ...modules
    ])
    process.stdout.write(`${file}: nothing found in ${modules.length} modules\n`)
  }
} catch (error) {
  process.stderr.write(`${error.message}\n${error.stdout ?? ""}\n`)
  process.exitCode = 1
} finally {
  if (kept === undefined) await rm(folder, { recursive: true, force: true })
}
