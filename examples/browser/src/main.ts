// The same page as that of `quantlet serve` (page/), with the model running in the page.
import '../../../page/src/in-page/main.tsx';
