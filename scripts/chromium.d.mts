export function findChromium(): string | undefined;
export function installChromium(say: (line: string) => void): string | undefined;
