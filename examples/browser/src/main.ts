// The page is the one that `quantlet serve` serves (page/), with the model in it.
import '../../../page/src/in-page/main.tsx';
