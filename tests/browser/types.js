// Checks the types in the JSDoc of the dashboard's own files. Prints each error. Exits 1 if there is an error, or if
// there are too few files.
// Libraries are parsed, because their types are inferred, but their own errors do not count.
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('../../web/dashboard', import.meta.url));
const own = ts.sys.readDirectory(root, ['.js'], ['vendor/**']);
const { options, errors } = ts.convertCompilerOptionsFromJson({
  allowJs: true, checkJs: true, noEmit: true, strict: true, noImplicitAny: false, useUnknownInCatchVariables: false, skipLibCheck: true,
  noUnusedLocals: true, noImplicitReturns: true, noFallthroughCasesInSwitch: true,
  target: 'ES2023', module: 'ES2022', moduleResolution: 'bundler', lib: ['es2023', 'dom', 'dom.iterable', 'dom.asynciterable'], types: [],
}, root);
const program = ts.createProgram(own, options);
const found = [...errors, ...ts.getPreEmitDiagnostics(program).filter((one) => !one.file || !one.file.fileName.includes('/vendor/'))];
const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => root, getNewLine: () => '\n' };
process.stdout.write(ts.formatDiagnostics(found, host));
console.log(`${own.length} files, ${found.length} errors`);
process.exit(own.length > 10 && found.length === 0 ? 0 : 1);
