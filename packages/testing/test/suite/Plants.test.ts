import { assert, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { pathToFileURL } from "node:url"
import type { Plants } from "../../plants/Plant.ts"

const root = path.join(import.meta.dirname, "../../../..")
const folder = path.join(root, "packages/testing/plants")
const files = readdirSync(folder).filter((file) => !["main.ts", "Plant.ts"].includes(file))

it.each(files)("every fault in %s fits its module", async (file) => {
  const { plants }: { readonly plants: Plants } = await import(pathToFileURL(path.join(folder, file)).href)
  const unfit = plants.plants.filter(({ file, find }) => readFileSync(path.join(root, file), "utf8").split(find).length !== 2)
  assert.deepStrictEqual(unfit.map(({ does }) => does), [])
})
