/** A repository that needs all of a registry's packages before its tests can run. */
import { execFile, execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { promisify } from "node:util"
import type { Package } from "./Packages.ts"
import { NAME, type Registry } from "./Registry.ts"

const commit = (folder: string) => {
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args], { cwd: folder, stdio: "pipe" })
  git("init", "--quiet", "--initial-branch=main")
  git("add", "--all")
  git("commit", "--quiet", "--message", "First")
}

/** Its lock file is npm's own. `environment`: what the repository says that it needs; `null`: nothing. */
export const make = async (
  folder: string,
  packages: ReadonlyArray<Package>,
  registry: Registry,
  environment: object | null
): Promise<string> => {
  mkdirSync(folder, { recursive: true })
  const put = (file: string, content: string | object) => {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true })
    writeFileSync(path.join(folder, file), typeof content === "string" ? content : `${JSON.stringify(content, null, 2)}\n`)
  }
  put("package.json", {
    name: "shop",
    version: "1.0.0",
    private: true,
    dependencies: Object.fromEntries(packages.map(({ name, version }) => [name, version]))
  })
  put(".npmrc", `registry=https://${NAME}/\ncafile=registry.pem\naudit=false\nfund=false\nupdate-notifier=false\n`)
  put("registry.pem", registry.certificate)
  put(".gitignore", "node_modules\n")
  put("src/main.js", "export const price = (chairs) => chairs * 90\n")
  if (environment !== null) put(".slipway/environment.json", environment)
  const options = ["--package-lock-only", "--ignore-scripts", `--registry=${registry.url}/`, `--cache=${folder}-npm-cache`]
  // This process answers it meanwhile.
  await promisify(execFile)("npm", ["install", ...options], { cwd: folder })
  commit(folder)
  return folder
}
