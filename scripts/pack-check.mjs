/** Packs, then lets publint and "are the types wrong?" look at each tarball, every module of it: `npm run pack:check`. */
import { execFile } from "node:child_process"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { promisify } from "node:util"

const execute = promisify(execFile)
const run = (command, args) => execute(command, args, { maxBuffer: 64 * 1024 * 1024 })

/** What a consumer may import: `src/a/B.js` is `./a/B`, `testing/C.js` is `./testing/C`. */
const modulesOf = async (tarball) => {
  const { stdout } = await run("tar", ["-tzf", tarball])
  return stdout.split("\n").flatMap((file) => /^package\/(?:src\/(.+)|(testing\/.+))\.js$/u.exec(file)?.slice(1).filter(Boolean) ?? [])
}

const folder = await mkdtemp(path.join(tmpdir(), "slipway-pack-check-"))
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
  await rm(folder, { recursive: true, force: true })
}
