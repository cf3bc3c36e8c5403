/** With `--import`: the process has `NoSpans` wherever it asks for `RootSpan`. */
import { registerHooks } from "node:module"

const instead = new URL("./NoSpans.ts", import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) => {
    const found = next(specifier, context)
    return found.url.endsWith("/domain/src/observability/RootSpan.ts") && context.parentURL !== instead ? { ...found, url: instead } : found
  }
})
