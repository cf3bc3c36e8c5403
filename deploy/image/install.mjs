/**
 * Installs what `npm run pack` packed of `slipway` in a folder, with what it depends on as node_modules of this checkout has it:
 * the versions that package-lock.json names, and nothing that is bundled.
 *
 *     node install.mjs FOLDER
 */
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readFileSync } from "node:fs"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "../..")
const installed = path.resolve(process.argv[2])
const slipway = path.join(installed, "node_modules/slipway")
mkdirSync(slipway, { recursive: true })
execFileSync("tar", ["-xzf", path.join(root, "dist/packages/slipway.tgz"), "--strip-components=1", "--no-same-owner", "-C", slipway])

/** As Node finds it. `undefined`: it is optional, and not for this platform. */
const find = (name, from) => {
  for (let at = from; at.startsWith(root); at = path.dirname(at)) {
    const folder = path.join(at, "node_modules", name)
    if (existsSync(folder)) return folder
  }
}

const placed = new Set()
const place = (manifest, from) => {
  for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) {
    const folder = find(name, from)
    if (folder === undefined && manifest.optionalDependencies?.[name] !== undefined) continue
    if (folder === undefined) throw new Error(`${name} is not installed`)
    if (placed.has(folder)) continue
    placed.add(folder)
    cpSync(folder, path.join(installed, path.relative(root, folder)), { recursive: true, verbatimSymlinks: true })
    place(JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8")), folder)
  }
}
place(JSON.parse(readFileSync(path.join(slipway, "package.json"), "utf8")), root)
