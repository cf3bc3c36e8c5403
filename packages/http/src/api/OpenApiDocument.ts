export const tidy = (spec: Record<string, any>) => spec
