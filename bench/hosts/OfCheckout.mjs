/** With `--import`: the packages that `Side.ts` asks for are those of the checkout that it is told, whatever checkout it is in itself. */
import { registerHooks } from "node:module"
import path from "node:path"
import { pathToFileURL } from "node:url"

const { checkout } = JSON.parse(process.argv[2])
const side = new URL("./Side.ts", import.meta.url).href
const there = pathToFileURL(path.join(checkout, "packages/slipway/src/Side.ts")).href

registerHooks({
  resolve: (specifier, context, next) => {
    const isOfPackage = context.parentURL === side && !specifier.startsWith(".") && !specifier.startsWith("node:")
    return next(specifier, isOfPackage ? { ...context, parentURL: there } : context)
  }
})
