import manifest from "../package.json" with { type: "json" }

/** The client of an agent, for protocols that ask for it. */
export const clientInfo = { name: "slipway", title: "Slipway", version: manifest.version }
