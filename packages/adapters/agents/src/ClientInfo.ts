import manifest from "../package.json" with { type: "json" }

/** Who drives an agent, as its protocol asks. */
export const clientInfo = { name: "slipway", title: "Slipway", version: manifest.version }
