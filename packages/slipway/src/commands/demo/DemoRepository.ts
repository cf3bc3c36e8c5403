/** The changes that the demo of environments makes to the sample repository. */
import type { Change } from "../../service/SampleRepository.ts"
import { DEPENDENCIES, type Registry } from "./DemoRegistry.ts"

export const ENVIRONMENT_FILE = ".slipway/environment.json"
export const ENVIRONMENT = JSON.stringify({ setup: ["npm ci"], cache: ["node_modules"], onFailure: "fail" })

const TEST = `const { price } = require("shop-money")
const said = "a table costs " + price(1200)
require("node:assert").equal(said, "a table costs 1,200 EUR")
console.log(said)
`

const MANIFEST = { name: "shop", version: "1.0.0", scripts: { test: "node test/prices.js" }, dependencies: DEPENDENCIES }

/** The change that adds dependencies on packages of the registry. `url`: the registry's address for boxes. */
export const withPackages = ({ cert, lockFile }: Registry, url: string): Change => ({
  message: "Show prices with shop-money",
  files: {
    [ENVIRONMENT_FILE]: ENVIRONMENT,
    "package.json": JSON.stringify(MANIFEST),
    "package-lock.json": lockFile("shop", url),
    ".npmrc": `registry=${url}\ncafile=registry.pem\naudit=false\nfund=false\nupdate-notifier=false\n`,
    "registry.pem": cert,
    "test/prices.js": TEST
  }
})
